"""The one task supervisor: every background task has a name, a place to report and an end.

A task that fails is reported once through `on_error` and counted; it never takes the process down and
never fails unseen. `close()` cancels what is left and waits for it.

A task is **essential** where the gateway would serve on as if nothing had happened without it, and be wrong: it is kept
(`keep`), which means that it is begun again after an error, later and later, and that the gateway is not ready until it
has run for a while. Kept are the loops that refresh a Kafka cluster, write and mirror the positions of termini, keep up
the shared state, its store and the leases, accept TLS connections, serve HTTP, keep connectors connected, run bridges,
write the journal, account for memory, and watch the policy. Everything else is the work of one attach, handshake, drain
or hand-over: it ends by itself, and what waits for it has an end of its own.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, Final, ParamSpec, TypeAlias, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
Work: TypeAlias = Coroutine[Any, Any, T]
"""What a coroutine function returns: what it yields to the loop, and gets from it, is between asyncio and itself."""

_AGAIN = 1.0
"""Seconds after which a task that has not ended is cancelled once more."""
_FIRST: Final = 0.1
_LONGEST: Final = 30.0
"""Seconds before a kept task is begun again: the first time, and at most, by doubling."""
_PROVEN: Final = 5.0
"""Seconds of running after which a kept task that has failed counts as well again."""


class Supervisor:
    """Owns the process's background tasks; used from one event loop only."""

    def __init__(
        self,
        on_error: Callable[[str, BaseException], None],
        on_restart: Callable[[str], None] = lambda name: None,
    ) -> None:
        """`on_error` hears of every task that fails, `on_restart` of every kept one that is begun again."""
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
        """Run an essential task until it returns, is cancelled or the supervisor closes; after an error, again.

        `name` up to the first colon is what metrics call it, so it is a word of ours.
        """
        return self.start(self._kept(run, name), name)

    async def _kept(self, run: Callable[[], Work[object]], name: str) -> None:
        me, pause = object(), _FIRST
        try:
            while not await self._ran(run, name, me):
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST) if me in self._down else _FIRST
                self._on_restart(name)
        finally:
            self._down.pop(me, None)

    async def _ran(self, run: Callable[[], Work[object]], name: str, me: object) -> bool:
        """Whether it came to its own end."""
        proof = asyncio.get_running_loop().call_later(_PROVEN, self._down.pop, me, None)
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
        """Take a step of one of several that are told after each other: its error goes to `on_error` and no further."""
        try:
            step()
        except Exception as error:
            self._on_error(name, error)

    def ready(self) -> tuple[bool, str]:
        """For `/readyz`: whether all essential tasks run."""
        if not self._down:
            return True, "all run"
        return False, "failed and begun again: " + ", ".join(sorted(self._down.values()))

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._on_error(task.get_name(), error)

    async def close(self) -> None:
        """Cancel every task and wait until each has ended.

        A library may take a cancellation for the end of its own time limit (redis does, when both come at once) and
        the task goes on: then it is cancelled again.
        """
        while tasks := set(self._tasks):
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_AGAIN)


async def together(*coroutines: Work[None]) -> None:
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
    """Cancel them until each has ended: a task group does so once, and a library may take that one for its own."""
    while left := [task for task in tasks if not task.done()]:
        for task in left:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.wait(left, timeout=_AGAIN)


async def set_within(event: asyncio.Event, seconds: float) -> None:
    """Wait until `event` is set, or `seconds` are over."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await event.wait()


async def until(condition: Callable[[], object], seconds: float) -> None:
    """Wait for a condition that events of the loop bring about; give up after `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - many small things make it true, none of them tells
                await asyncio.sleep(0.01)


async def off_loop(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what computes or reads files for a while in a thread; raises what it raises.

    The end of the process does not wait for the thread: a file system that does not answer must not keep it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def settle(give: Callable[[], None]) -> None:
        if not done.done():  # whoever waited may have gone
            give()

    def run() -> None:
        try:
            give = partial(done.set_result, work(*args, **kwargs))
        except BaseException as error:
            give = partial(done.set_exception, error)
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(settle, give)

    threading.Thread(target=run, name="off-loop", daemon=True).start()
    return await done
