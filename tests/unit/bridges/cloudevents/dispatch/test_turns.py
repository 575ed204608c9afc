"""Many subscriptions start and stop in pieces: other work of the loop, such as keeping leases, goes on between them."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable
from typing import Final

import pytest

from bridges.cloudevents.dispatch.stored.by_bucket import ByBucket
from bridges.cloudevents.dispatch.stored.checkpoint_record import BUCKETS, bucket_of
from tests.support.cloudevents.delivery import Subscribed, Topic, until

MANY: Final = 400


@pytest.fixture
async def topic() -> AsyncIterator[Topic]:
    made = Topic(partitions=1)
    yield made
    await made.close()


@pytest.fixture
def each_piece_is_a_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    """However quick the machine is."""
    monkeypatch.setattr("gateway.tasks._TIME_SLICE", 0.0)


async def turns_during(work: Awaitable[object]) -> int:
    """How often another task has its turn while this is awaited."""
    count = 0

    async def other() -> None:
        nonlocal count
        for count in itertools.count(1):  # noqa: B007
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    await work
    task.cancel()
    return count


@pytest.mark.usefixtures("each_piece_is_a_slice")
async def test_others_have_their_turn_while_many_subscriptions_start_and_stop(topic: Topic) -> None:
    dispatcher = topic.dispatcher()
    await until(lambda: dispatcher.valid)
    starts = await topic.starts()
    for number in range(MANY):
        await dispatcher.put(Subscribed(f"s-{number}"), 1, starts)
    await until(lambda: dispatcher.observer.delivering == MANY)
    dispatcher.on_lost(range(BUCKETS))
    assert dispatcher.observer.delivering == 0
    assert await turns_during(dispatcher.on_gained(range(BUCKETS))) >= MANY
    assert dispatcher.observer.delivering == MANY
    assert await turns_during(dispatcher.on_revoked(range(BUCKETS))) >= MANY
    assert dispatcher.observer.delivering == 0


def test_ids_are_found_by_their_buckets() -> None:
    found = ByBucket[int]()
    ids = [f"s-{number}" for number in range(300)]
    for number, id in enumerate(ids):
        found[id] = number
        found[id] = number
    assert set(found.buckets) == set(map(bucket_of, ids))
    some = set(itertools.islice(found.buckets, 5))
    assert sorted(found.ids_in(some)) == sorted(id for id in ids if bucket_of(id) in some)
    for id in ids:
        assert found.pop(id) == int(id[2:])
    assert (len(found), list(found.buckets), found.ids_in(range(BUCKETS))) == (0, [], [])
