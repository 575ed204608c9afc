"""What the supervisor runs ends when told to, though a library takes a cancellation for its own time limit."""

from __future__ import annotations

import asyncio
import threading

import pytest

from gateway import tasks
from gateway.tasks import DaemonThreads, KeyedLocks, Supervisor, run_in, run_together


async def deaf(times: int) -> None:
    """Goes on after so many cancellations."""
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if not times:
                raise
            times -= 1


async def fails() -> None:
    raise KeyError("x")


async def test_tasks_that_run_together_end_although_one_is_deaf_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_CANCEL_AGAIN", 0.01)
    errors: list[BaseException] = []
    supervisor = Supervisor(lambda name, error: errors.append(error))
    supervisor.keep(lambda: run_together(deaf(3), deaf(0)), "loop")
    await asyncio.sleep(0)
    await asyncio.wait_for(supervisor.close(), 60)
    assert errors == []


async def test_the_first_error_ends_the_others_and_is_raised(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "_CANCEL_AGAIN", 0.01)
    ended = asyncio.Event()

    async def other() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    with pytest.raises(KeyError):
        await run_together(other(), fails(), deaf(2))
    assert ended.is_set()


async def test_a_lock_of_a_key_is_one_for_all_who_want_it_and_ends_with_them() -> None:
    locks, order = KeyedLocks(), list[str]()

    async def work(name: str, key: str) -> None:
        async with locks.of(key):
            order.append(f"{name} begins")
            await asyncio.sleep(0)
            order.append(f"{name} ends")

    await asyncio.gather(work("1", "a"), work("2", "a"), work("3", "b"))
    assert [each for each in order if each[0] in "12"] == ["1 begins", "1 ends", "2 begins", "2 ends"]
    assert order.index("3 begins") < order.index("1 ends")
    assert not locks.keys


async def test_calls_wait_for_one_of_a_few_threads_which_hold_up_no_end_of_the_process() -> None:
    threads, blocked = DaemonThreads(2, "call"), threading.Event()
    calls = [asyncio.ensure_future(run_in(threads.start, blocked.wait)) for _ in range(2)]
    late = asyncio.ensure_future(run_in(threads.start, threading.current_thread))
    await asyncio.sleep(0)
    assert sum(each.name.startswith("call-") for each in threading.enumerate()) == 2
    assert not late.done()
    blocked.set()
    assert await asyncio.gather(*calls) == [True, True]
    assert (await late).daemon
    with pytest.raises(ZeroDivisionError):
        await run_in(threads.start, lambda: 1 // 0)
    assert (await run_in(threads.start, threading.current_thread)).name in {"call-1", "call-2"}
