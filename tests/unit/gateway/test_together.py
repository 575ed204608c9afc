"""Coroutines that run as one task end with it, even one that takes a cancellation for something of its own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway import tasks
from gateway.tasks import Supervisor, run_together


class StubbornTask:
    """Goes on after its first cancellation, as a read of redis does whose time is up at the same moment."""

    def __init__(self) -> None:
        self.heard = 0

    async def run(self) -> None:
        while True:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                self.heard += 1
                if self.heard > 1:
                    raise


async def test_a_supervisor_closes_though_one_of_them_was_deaf_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_CANCEL_AGAIN", 0.01)
    deaf, errors = StubbornTask(), list[Any]()
    supervisor = Supervisor(lambda name, error: errors.append(error))
    supervisor.keep(lambda: run_together(deaf.run(), asyncio.Event().wait()), "pair")  # type: ignore[arg-type]
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    await asyncio.wait_for(supervisor.close(), 60)
    assert (deaf.heard, errors) == (2, [])


async def test_the_first_error_ends_the_others_and_is_raised() -> None:
    ended = asyncio.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async def fails() -> None:
        raise ValueError("first")

    with pytest.raises(ValueError, match="first"):
        await run_together(waits(), fails())
    assert ended.is_set()
