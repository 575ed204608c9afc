"""The one task supervisor: every background task has a name, a place to report and an end.

A task that fails is reported once through `on_error` and counted; it never takes the process down and
never fails unseen. `close()` cancels what is left and waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_AGAIN = 1.0
"""Seconds after which a task that has not ended is cancelled once more."""


class Supervisor:
    """Owns the process's background tasks; used from one event loop only."""

    def __init__(self, on_error: Callable[[str, BaseException], None]) -> None:
        self._on_error = on_error
        self._tasks: set[asyncio.Task[Any]] = set()

    def start(self, coroutine: Coroutine[Any, Any, Any], name: str) -> asyncio.Task[Any]:
        """Run `coroutine` until it ends or the supervisor closes; errors go to `on_error`."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
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


async def until(condition: Callable[[], Any], seconds: float) -> None:
    """Wait for a condition that events of the loop bring about; give up after `seconds`."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 - many small things make it true, none of them tells
                await asyncio.sleep(0.01)


async def off_loop(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run what computes or reads files for a while in a thread; raises what it raises."""
    return await asyncio.to_thread(work, *args, **kwargs)
