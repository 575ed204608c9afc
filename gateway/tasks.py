"""The task supervisor: every background task has a name, and its errors are reported.

A task that fails is reported once through `on_error` and counted; it does not end the process. `close()` cancels the
remaining tasks and waits for them.

A task is **essential** if the gateway would go on serving without it, but wrongly. Essential tasks are started with
`keep`: they are restarted after an error, with growing pauses, and the gateway is not ready until they have run for a
while. These are the loops that refresh a Kafka cluster, write and mirror the positions of termini, keep up the shared
state, its store and the leases, accept TLS connections, serve HTTP, keep connectors connected, run bridges, write the
journal, send spans, account for memory, look after the credit of links and their lag, measure the loop, watch the
policy, and follow, deliver and mark subscriptions, and mirror their positions.
Every other task is the work of one attach, handshake, drain or hand-over: it ends by itself, and whatever waits for it
has a time limit.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from queue import SimpleQueue
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
T = TypeVar("T")
Work: TypeAlias = Coroutine[Any, Any, T]
"""The result of a coroutine function; the types that it exchanges with asyncio do not matter."""

_CANCEL_AGAIN = 1.0
"""Seconds after which a task that has not ended is cancelled again."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 30.0
"""Seconds before an essential task is restarted: the first time, and at most; the pause doubles."""
_RECOVERED: Final = 5.0
"""Seconds after which a restarted task counts as running."""
_TIME_SLICE: Final = 0.002
"""Seconds that one piece of long work takes before other work of the loop has its turn."""


class Supervisor:
    """Owns the process's background tasks; used from one event loop only."""

    def __init__(
        self,
        on_error: Callable[[str, BaseException], None],
        on_restart: Callable[[str], None] = lambda name: None,
        on_keep: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`on_error` is called for every task that fails, `on_restart` for every essential one that is restarted.

        `on_keep` is called when an essential task begins.
        """
        self._on_keep = on_keep
        self._on_error = on_error
        self._on_restart = on_restart
        self._tasks: set[asyncio.Task[object]] = set()
        self._down: dict[object, str] = {}

    def start(self, coroutine: Work[T], name: str) -> asyncio.Task[T]:
        """Run `coroutine` until it ends or the supervisor closes; errors go to `on_error`."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def keep(self, run: Callable[[], Work[object]], name: str) -> asyncio.Task[None]:
        """Run an essential task until it returns, is cancelled or the supervisor closes; restart it after an error.

        `name` up to the first colon is a label of metrics, so it must be a word of this project.
        """
        self._on_keep(name)
        return self.start(self._kept(run, name), name)

    async def _kept(self, run: Callable[[], Work[object]], name: str) -> None:
        me, pause = object(), _FIRST_PAUSE
        try:
            while not await self._ran(run, name, me):
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE) if me in self._down else _FIRST_PAUSE
                self._on_restart(name)
        finally:
            self._down.pop(me, None)

    async def _ran(self, run: Callable[[], Work[object]], name: str, me: object) -> bool:
        """Whether the task returned without an error."""
        proof = asyncio.get_running_loop().call_later(_RECOVERED, self._down.pop, me, None)
        try:
            await run()
        except Exception as error:
            self._down[me] = name
            self._on_error(name, error)
            return False
        finally:
            proof.cancel()
        return True

    def attempt(self, step: Callable[[], object], name: str) -> None:
        """Call `step`.

        An error goes to `on_error` and is not raised, so that the caller can go on with the next step.
        """
        try:
            step()
        except Exception as error:
            self._on_error(name, error)

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`: whether all essential tasks run."""
        if not self._down:
            return True, "all run"
        return False, "failed and restarted: " + ", ".join(sorted(self._down.values()))

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(task.get_name(), error)

    async def close(self) -> None:
        """Cancel every task and wait until each has ended.

        A library may mistake a cancellation for the end of its own time limit (redis does, if both come at once), and
        the task goes on; then it is cancelled again.
        """
        while tasks := set(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CANCEL_AGAIN)


async def run_together(*coroutines: Work[None]) -> None:
    """Run all of them; the first error ends the others and is raised."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(each) for each in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    finally:
        await _ended(tasks)
    for task in tasks:
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error


async def _ended(tasks: list[asyncio.Task[None]]) -> None:
    """Cancel tasks until each has ended; `asyncio.TaskGroup` cancels only once, which a library may swallow."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait(left, timeout=_CANCEL_AGAIN)


class KeyedLocks:
    """A lock for each key, which exists while somebody holds it or waits for it."""

    def __init__(self) -> None:
        self._locks: Final[WeakValueDictionary[str, asyncio.Lock]] = WeakValueDictionary()

    def of(self, key: str) -> asyncio.Lock:
        """The lock of `key`, for `async with`."""
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock

    @property
    def keys(self) -> list[str]:
        """The keys whose locks exist."""
        return list(self._locks)


class TimeSlice:
    """Lets other work of the loop run between the pieces of long work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds; the first slice begins now."""
        self._clock: Final = clock
        self._end = clock() + _TIME_SLICE

    async def pause(self) -> None:
        """After each piece: give way if the slice is over, and begin another one."""
        if self._clock() >= self._end:
            await asyncio.sleep(0)
            self._end = self._clock() + _TIME_SLICE


async def set_within(event: asyncio.Event, seconds: float) -> bool:
    """Wait until `event` is set, or `seconds` are over; returns whether it is set."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()
    return event.is_set()


async def until(condition: Callable[[], object], seconds: float) -> None:
    """Poll a condition until it is true, for at most `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - no single event makes it true
                await asyncio.sleep(0.01)


async def off_loop(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run `work`, which computes or reads files for a while, in a thread; raises its errors.

    The end of the process does not wait for the thread, because a file system may never answer.
    """
    return await run_in(_new_thread, partial(work, *args, **kwargs))


def _new_thread(run: Callable[[], None]) -> None:
    threading.Thread(target=run, name="off-loop", daemon=True).start()


async def run_in(
    start: Callable[[Callable[[], None]], None], work: Callable[[], T], until: float | None = None
) -> T:
    """Wait for `work`, which `start` lets run in a thread; raises its errors.

    `until`: the time of the loop's clock at which this raises TimeoutError, whatever becomes of the thread.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(give: Callable[[], None]) -> None:
        if not done.done():  # the waiting task may have been cancelled, or the time be over
            give()

    def run() -> None:
        try:
            give = partial(done.set_result, work())
        except BaseException as error:
            give = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, give)

    late = None if until is None else loop.call_at(until, settle, partial(done.set_exception, TimeoutError()))
    start(run)
    try:
        return await done
    finally:
        if late is not None:
            late.cancel()


class DaemonThreads:
    """A few threads for calls that may block for ever: the end of the process does not wait for them.

    It waits for those of a `ThreadPoolExecutor`, whatever its `shutdown` is told.
    """

    def __init__(self, most: int, name: str) -> None:
        """At most so many threads; further calls wait for one of them."""
        self._most: Final = most
        self._name: Final = name
        self._calls: Final = SimpleQueue[Callable[[], None]]()
        self._idle: Final = deque[None]()
        """One for each thread that has nothing to do: a semaphore takes ten times as long."""
        self._count = 0

    def start(self, call: Callable[[], None]) -> None:
        """Let a call run, which raises nothing."""
        self._calls.put(call)
        if self._idle:
            self._idle.pop()
        elif self._count < self._most:
            self._count += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._count}", daemon=True).start()

    def _work(self) -> None:
        while True:
            self._calls.get()()
            self._idle.append(None)
