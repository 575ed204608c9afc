"""The records of durable termini, in memory and in a real Redis: one behaviour (KM-11)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from redis.asyncio import Redis as Client

from gateway.state.redis_connections import redis_client
from gateway.state.termini.redis_store import RedisTermini
from gateway.state.termini.store import Fenced, Full, MemoryTermini, Save, Saved, Termini, TerminiUnavailable
from tests.support.gateway.process import PATIENCE, free_port
from tests.support.servers.servers import Redis


@pytest.fixture(params=["memory", "redis"])
async def termini(request: pytest.FixtureRequest) -> AsyncIterator[Termini]:
    if request.param == "memory":
        yield MemoryTermini(each=2)
        return
    server: Redis = request.getfixturevalue("redis_server")
    server.empty()
    client = Client.from_url(server.url)
    yield RedisTermini(client, each=2)
    await client.aclose()


async def test_positions_stay_and_come_back(termini: Termini) -> None:
    first = await termini.acquire("k", "orders", None)
    assert first.positions is None
    assert await termini.save([Save("k", first.token, {0: 5, 2: 7}, None)]) == [True]
    assert await termini.save([Save("k", first.token, {0: 6}, None)]) == [True]
    assert (await termini.acquire("k", "orders", None)).positions == {0: 6, 2: 7}


async def test_who_takes_the_record_fences_the_one_before(termini: Termini) -> None:
    old = await termini.acquire("k", "orders", None)
    new = await termini.acquire("k", "orders", None)
    saves = [Save("k", old.token, {0: 9}, None), Save("k", new.token, {0: 1}, None)]
    assert await termini.save(saves) == [False, True]
    await termini.drop("k", old.token)
    assert (await termini.acquire("k", "orders", None)).positions == {0: 1}


async def test_an_owner_has_so_many_records_and_room_again_when_one_ends(termini: Termini) -> None:
    first = await termini.acquire("k1", "a", None, owner="ann")
    ending = await termini.acquire("k2", "a", 600_000, owner="ann")
    for key, owner in (("k1", "ann"), ("k3", "bob"), ("k4", "")):
        await termini.acquire(key, "a", None, owner=owner)
    with pytest.raises(Full) as full:
        await termini.acquire("k5", "a", None, owner="ann")
    assert full.value.most == 2
    assert await termini.save([Save("k2", ending.token, {}, 1)]) == [True]
    async with asyncio.timeout(PATIENCE):  # until k2 has expired
        while True:
            with suppress(Full):
                await termini.acquire("k5", "a", None, owner="ann")
                break
            await asyncio.sleep(0.01)
    with pytest.raises(Full):
        await termini.acquire("k6", "a", None, owner="ann")
    await termini.drop("k1", first.token)  # it has been taken since
    with pytest.raises(Full):
        await termini.acquire("k6", "a", None, owner="ann")
    await termini.drop("k1", (await termini.acquire("k1", "a", None, owner="ann")).token)
    await termini.acquire("k6", "a", None, owner="ann")


async def test_marks_come_back_as_they_were_given(termini: Termini) -> None:
    first = await termini.acquire("k", "a log there", None)
    assert first.marks == {}
    names = {"": "log-a", "token": "log-b", "7": "00012", "a part": "'@latest'"}
    assert await termini.save([Save("k", first.token, {}, None, names)]) == [True]
    assert await termini.save([Save("k", first.token, {}, None, {"7": "0002"})]) == [True]
    second = await termini.acquire("k", "a log there", None)
    assert second.marks == {**names, "7": "0002"}
    assert await termini.save([Save("k", first.token, {}, None, {"7": "late"})]) == [False]
    assert (await termini.acquire("k", "another log", None)).marks == {}


async def test_a_terminus_for_something_else_begins_anew(termini: Termini) -> None:
    old = await termini.acquire("k", "red ones", None)
    await termini.save([Save("k", old.token, {0: 9}, None)])
    assert (await termini.acquire("k", "blue ones", None)).positions is None


async def test_a_dropped_record_is_gone(termini: Termini) -> None:
    kept = await termini.acquire("k", "orders", None)
    await termini.save([Save("k", kept.token, {0: 9}, None)])
    await termini.drop("k", kept.token)
    assert await termini.save([Save("k", kept.token, {0: 9}, None)]) == [Saved.GONE]
    assert (await termini.acquire("k", "orders", None)).positions is None


async def test_an_owner_by_an_older_lease_comes_too_late(termini: Termini) -> None:
    kept = await termini.acquire("k", "orders", None, fence=7)
    with pytest.raises(Fenced):
        await termini.acquire("k", "orders", None, fence=6)
    assert await termini.save([Save("k", kept.token, {0: 1}, None)]) == [True]
    assert (await termini.acquire("k", "orders", None, fence=8)).positions == {0: 1}


async def test_a_record_ends_when_its_time_is_over() -> None:
    now = [0.0]
    termini = MemoryTermini(lambda: now[0], most=1)
    kept = await termini.acquire("k", "orders", 1000)
    await termini.save([Save("k", kept.token, {0: 9}, 2000)])
    now[0] = 1.5
    with pytest.raises(TerminiUnavailable):
        await termini.acquire("other", "orders", None)
    now[0] = 2.5
    assert (await termini.acquire("other", "orders", None)).positions is None


async def test_a_record_that_is_written_often_ends_with_its_last_time_and_is_looked_at_seldom() -> None:
    now = [0.0]
    termini = MemoryTermini(lambda: now[0])
    kept = await termini.acquire("k", "orders", 60_000)
    for _ in range(1000):
        now[0] += 0.1
        await termini.save([Save("k", kept.token, {0: 9}, 60_000)])
    assert len(termini._ends) <= 2
    await termini.save([Save("k", kept.token, {0: 9}, 1000)])
    now[0] += 1.1
    assert (await termini.acquire("k", "orders", None)).positions is None


async def test_redis_ends_a_record_and_keeps_one_without_a_time(redis_server: Redis) -> None:
    client = Client.from_url(redis_server.url)
    termini = RedisTermini(client)
    lasting, ending = await termini.acquire("lasts", "a", None), await termini.acquire("ends", "a", 50_000)
    await termini.save([Save("lasts", lasting.token, {0: 1}, None), Save("ends", ending.token, {0: 1}, 60_000)])
    assert redis_server.command("PTTL", "scopegate:terminus:lasts") == "-1"
    assert 50_000 < int(redis_server.command("PTTL", "scopegate:terminus:ends")) <= 60_000
    await client.aclose()


async def test_without_redis_nothing_is_said_to_be_kept() -> None:
    client = redis_client(f"redis://127.0.0.1:{free_port()}", timeout=1, connect_timeout=1)
    termini = RedisTermini(client)
    asks: list[Callable[[], Coroutine[Any, Any, Any]]] = [
        lambda: termini.acquire("k", "a", None),
        lambda: termini.save([Save("k", "t", {0: 1}, None)]),
        lambda: termini.drop("k", "t"),
    ]
    for ask in asks:
        with pytest.raises(TerminiUnavailable):
            await ask()
    await client.aclose()
