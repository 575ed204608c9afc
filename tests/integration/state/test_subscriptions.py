"""The stores of subscriptions, in memory and in Redis: limits, revisions, and what followers hear."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Sequence

import pytest

from gateway.state import MemoryState, State
from gateway.state import redis as redis_state
from gateway.state.redis import RedisState
from gateway.state.subscriptions.store import (
    AlreadyExists,
    Change,
    Changed,
    LimitReached,
    SubscriptionLimits,
    SubscriptionsUnavailable,
)
from gateway.state.termini.store import Save, Saved
from tests.support.gateway.process import PATIENCE
from tests.support.servers.servers import Redis

MANY = SubscriptionLimits(100, 100)


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may stand still for longer than a gateway waits for Redis."""
    monkeypatch.setattr(redis_state, "TIMEOUT", PATIENCE)


@pytest.fixture(params=["memory", "redis"])
async def state(request: pytest.FixtureRequest) -> AsyncIterator[State]:
    """A place of state whose changes are followed."""
    state: State
    if request.param == "memory":
        state = MemoryState()
    else:
        server: Redis = request.getfixturevalue("redis_server")
        state = RedisState(server.url)
    task = asyncio.create_task(state.subscriptions.run())
    yield state
    task.cancel()
    await state.close()


@pytest.fixture
def manager() -> str:
    """A manager of this test alone."""
    return f"core/{uuid.uuid4()}"


async def test_a_subscription_is_created_replaced_and_deleted(state: State, manager: str) -> None:
    store = state.subscriptions
    made = await store.create(manager, "äß", "ann\nbob\\", b"one\ntwo\n", MANY)
    assert (made.id, made.owner, made.document) == ("äß", "ann\nbob\\", b"one\ntwo\n")
    assert await store.load(manager) == (made.revision, {"äß": made})
    changed = await store.replace(manager, "äß", b"three", made.revision)
    assert changed.revision > made.revision
    assert (changed.owner, changed.document) == (made.owner, b"three")
    assert await store.load(manager) == (changed.revision, {"äß": changed})
    assert await store.load_some(manager, ["äß", "other"]) == {"äß": changed}
    deleted = await store.delete(manager, "äß", changed.revision)
    assert deleted > changed.revision
    assert await store.load(manager) == (deleted, {})


async def test_of_two_creators_of_one_id_one_wins(state: State, manager: str) -> None:
    store = state.subscriptions
    made = [store.create(manager, "a", "ann", b"%d" % each, MANY) for each in range(2)]
    answers = await asyncio.gather(*made, return_exceptions=True)
    assert sorted(type(each) is AlreadyExists for each in answers) == [False, True]


async def test_a_change_of_an_older_revision_changes_nothing(state: State, manager: str) -> None:
    store = state.subscriptions
    made = await store.create(manager, "a", "ann", b"1", MANY)
    changed = await store.replace(manager, "a", b"2", made.revision)
    with pytest.raises(Changed):
        await store.replace(manager, "a", b"3", made.revision)
    with pytest.raises(Changed):
        await store.delete(manager, "a", made.revision)
    with pytest.raises(Changed):
        await store.replace(manager, "b", b"3", made.revision)
    assert (await store.load(manager))[1] == {"a": changed}


async def test_limits_of_a_manager_and_of_a_user(state: State, manager: str) -> None:
    store, limits = state.subscriptions, SubscriptionLimits(3, 2)
    first = await store.create(manager, "1", "ann", b"", limits)
    await store.create(manager, "2", "ann", b"", limits)
    with pytest.raises(LimitReached) as user:
        await store.create(manager, "3", "ann", b"", limits)
    assert (user.value.which, user.value.most) == ("user", 2)
    await store.create(manager, "3", "bob", b"", limits)
    with pytest.raises(LimitReached) as full:
        await store.create(manager, "4", "cid", b"", limits)
    assert (full.value.which, full.value.most) == ("subscriptions", 3)
    await store.delete(manager, "1", first.revision)
    await store.create(manager, "4", "ann", b"", limits)


async def test_managers_know_nothing_of_each_other(state: State, manager: str) -> None:
    await state.subscriptions.create(manager, "a", "ann", b"", SubscriptionLimits(1, 1))
    await state.subscriptions.create(f"{manager}2", "a", "ann", b"", SubscriptionLimits(1, 1))
    assert list((await state.subscriptions.load(manager))[1]) == ["a"]


async def test_followers_hear_of_each_change_until_they_end(state: State, manager: str) -> None:
    store, received = state.subscriptions, asyncio.Event()
    end = store.follow(manager, lambda changes: received.set())
    made = await store.create(manager, "a", "ann", b"", MANY)
    await asyncio.wait_for(received.wait(), PATIENCE)
    while received.is_set():  # a follower that is new counts as told once, at any time
        received.clear()
        await asyncio.sleep(0.05)
    changed = await store.replace(manager, "a", b"", made.revision)
    await asyncio.wait_for(received.wait(), PATIENCE)
    end()
    received.clear()
    await store.delete(manager, "a", changed.revision)
    other = asyncio.Event()
    end = store.follow(manager, lambda changes: other.set())
    await store.create(manager, "b", "ann", b"", MANY)
    await asyncio.wait_for(other.wait(), PATIENCE)
    assert not received.is_set()
    end()


async def test_a_process_hears_of_the_changes_of_another_one(redis_server: Redis, manager: str) -> None:
    here, there = RedisState(redis_server.url), RedisState(redis_server.url)
    task, received = asyncio.create_task(there.subscriptions.run()), asyncio.Event()
    reported: list[Change] = []

    def follow(changes: Sequence[Change] | None) -> None:
        reported.extend(changes or ())
        received.set()

    there.subscriptions.follow(manager, follow)
    await asyncio.wait_for(received.wait(), PATIENCE)
    for number in range(3):
        received.clear()
        await here.subscriptions.create(manager, str(number), "ann", b"", MANY)
        await asyncio.wait_for(received.wait(), PATIENCE)
    revision, found = await there.subscriptions.load(manager)
    assert (revision, found.keys()) == (3, {"0", "1", "2"})
    assert revision == await there.subscriptions.revision(manager)
    assert set(reported) <= {Change(1, "0"), Change(2, "1"), Change(3, "2")} >= {reported[-1]}
    task.cancel()
    await here.close()
    await there.close()


async def test_without_redis_nothing_is_changed_and_that_is_said() -> None:
    state = RedisState("redis://127.0.0.1:1")
    with pytest.raises(SubscriptionsUnavailable):
        await state.subscriptions.create("core/a", "a", "ann", b"", MANY)
    with pytest.raises(SubscriptionsUnavailable):
        await state.subscriptions.load("core/a")
    await state.close()


async def test_a_mark_of_a_terminus_can_be_removed(state: State, manager: str) -> None:
    taken = await state.termini.acquire(manager, "a", None)
    both = Save(manager, taken.token, {0: 5}, None, {"x": "1", "y": "2"})
    assert await state.termini.save([both]) == [Saved.DONE]
    assert await state.termini.save([Save(manager, taken.token, {}, None, {"z": "3"}, ("x", "none"))]) == [Saved.DONE]
    assert await state.termini.marks(manager, ("z", "x", "y")) == ["3", None, "2"]
    assert await state.termini.marks(manager + "?", ("z",)) == [None]
    left = await state.termini.acquire(manager, "a", None)
    assert (left.positions, dict(left.marks)) == ({0: 5}, {"y": "2", "z": "3"})
    assert await state.termini.save([Save(manager, taken.token, {}, None, {}, ("y",))]) == [Saved.TAKEN]
    await state.termini.drop(manager, left.token)
