"""Many subscriptions that wake at once leave the loop time for others."""

from __future__ import annotations

import asyncio
import itertools

from bridges.cloudevents.dispatch.scheduler import StepScheduler


async def test_a_thousand_steps_are_taken_in_order_and_others_have_their_turn_between() -> None:
    clock = itertools.count()
    turns = StepScheduler(lambda: next(clock) / 10_000)  # each look at the clock is a tenth of a millisecond later
    done: list[int] = []
    for number in range(1000):
        turns.add(lambda number=number: done.append(number))  # type: ignore[misc]
    others = 0
    while len(done) < 1000:
        await asyncio.sleep(0)
        others += 1
    assert done == list(range(1000))
    assert 40 <= others <= 100


async def test_a_step_may_ask_for_another_turn() -> None:
    turns, left = StepScheduler(), [3]
    over = asyncio.Event()

    def step() -> None:
        left[0] -= 1
        if left[0]:
            turns.add(step)
        else:
            over.set()

    turns.add(step)
    await asyncio.wait_for(over.wait(), 5)
