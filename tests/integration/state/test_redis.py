"""The store in a real Redis: shared by clients, never a use too many, and honest when Redis is away or slow."""

from __future__ import annotations

import asyncio
import random
import signal
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from gateway.state import redis as redis_state
from gateway.state.counters import redis_store
from gateway.state.counters.redis_store import MOST, RedisCounterStore
from gateway.state.counters.store import PATIENCE
from gateway.state.redis import RedisState
from gateway.state.redis_connections import redis_client
from gateway.tasks import Supervisor
from tests.support.servers.servers import Redis


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may stand still for longer than a gateway waits for Redis: only one test has its limits."""
    monkeypatch.setattr(redis_store, "PATIENCE", 30 * PATIENCE)
    monkeypatch.setattr(redis_state, "TIMEOUT", 30 * PATIENCE)


@pytest.fixture
def redis_server(redis_server: Redis) -> Redis:
    """Without what an earlier round of a test has left."""
    redis_server.empty()
    return redis_server


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.stop()


@asynccontextmanager
async def opened(redis: Redis, every: float = 0.02) -> AsyncIterator[RedisCounterStore]:
    def failed(name: str, error: BaseException) -> None:
        raise AssertionError(f"{name}: {error!r}")

    state, supervisor = RedisState(redis.url, every=every), Supervisor(failed)
    supervisor.start(state.run(), "state")
    supervisor.start(state.store.run(), "store")
    try:
        await asked(state)  # a first question that meets with a stopped Redis would be repeated after `every` only
        yield state.store
    finally:
        await supervisor.close()
        await state.close()


async def asked(state: RedisState) -> None:
    """Wait until it is known whether Redis answers."""
    async with asyncio.timeout(60):
        while state.ready()[1].endswith("not asked yet"):  # noqa: ASYNC110 (nothing tells; it is asked)
            await asyncio.sleep(0.01)


async def answered(ask: Callable[[Callable[[Any], None]], None]) -> Any:
    """Ask and wait for the answer, which comes once; `in_time` says when."""
    future = asyncio.get_running_loop().create_future()
    ask(future.set_result)
    return await asyncio.wait_for(future, 30 * PATIENCE)


async def in_time(answers: Coroutine[Any, Any, Any]) -> Any:
    """What is answered before five waits of the store's own length are over, one after the other, on the same loop.

    An answer takes two of them at most. A machine that is late with those is late with these, too.
    """

    async def waits() -> None:
        for _ in range(5):
            await asyncio.sleep(PATIENCE / 2)

    asked, late = asyncio.ensure_future(answers), asyncio.ensure_future(waits())
    await asyncio.wait({asked, late}, return_when=asyncio.FIRST_COMPLETED)
    late.cancel()
    assert asked.done(), "not answered in time"
    return asked.result()


async def known(store: RedisCounterStore, key: str, claim: str, limit: int) -> bool:
    """Ask until the answer is known: what is asked while a batch from before times out is not."""
    while (answer := await counted(store, key, claim, limit)) is None:  # noqa: ASYNC110 (it is asked anew)
        await asyncio.sleep(0.01)
    return bool(answer)


async def counted(store: RedisCounterStore, key: str, claim: str, limit: int = 1) -> Any:
    return await answered(lambda then: store.acquire(key, claim, limit, 60_000, then))


async def together(store: RedisCounterStore, many: int) -> list[Any]:
    return await asyncio.gather(*(counted(store, f"u:{number}", "b") for number in range(many)))


async def test_values_are_shared_and_expire(redis_server: Redis) -> None:
    async with opened(redis_server) as one, opened(redis_server) as two:
        assert await answered(lambda then: one.put("v:1", b"\0value", 60_000, then)) is True
        assert await answered(lambda then: two.get("v:1", then)) == b"\0value"
        assert await answered(lambda then: two.get("v:2", then)) == b""
        assert await answered(lambda then: one.put("v:3", b"brief", 1, then)) is True
        await becomes(redis_server, "0", "EXISTS", "scopegate:v:3")
        assert 50_000 < int(redis_server.command("PTTL", "scopegate:v:1")) <= 60_000


async def test_a_claim_counts_once_and_frees_only_itself(redis_server: Redis) -> None:
    async with opened(redis_server) as one, opened(redis_server) as two:
        assert [await counted(one, "u:1", claim, 2) for claim in ("a", "a", "b", "c", "a")] == [
            True, True, True, False, True,
        ]  # fmt: skip
        two.release("u:1", "c")
        assert await counted(two, "u:1", "d", 2) is False
        two.release("u:1", "a")
        two.release("u:1", "a")
        assert await counted(one, "u:1", "d", 2) is True
        assert await counted(two, "u:1", "e", 2) is False
        assert 0 < int(redis_server.command("PTTL", "scopegate:u:1")) <= 60_000


async def test_many_clients_take_no_use_too_many(redis_server: Redis) -> None:
    """Four clients ask, give back and ask again all at once, for cookies of different limits."""
    rounds = random.Random(4)
    async with AsyncExitStack() as stack:
        stores = [await stack.enter_async_context(opened(redis_server)) for _ in range(4)]
        for limit in (1, 2, 7):
            key = f"u:many-{limit}"
            taken: set[str] = set()
            for turn in range(10):
                claims = [f"{turn}-{number}" for number in range(40)]
                results = await asyncio.gather(
                    *(counted(rounds.choice(stores), key, claim, limit) for claim in claims)
                )
                taken |= {claim for claim, result in zip(claims, results, strict=True) if result}
                assert len(taken) == limit
                freed = set(rounds.sample(sorted(taken), rounds.randint(1, limit)))
                for claim in freed:
                    rounds.choice(stores).release(key, claim)
                taken -= freed
                await becomes(redis_server, str(len(taken)), "SCARD", f"scopegate:{key}")


async def test_an_answer_comes_in_time_from_a_redis_that_says_nothing(
    own_redis: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it did all the same is undone once it speaks again: the use is not lost."""
    monkeypatch.undo()
    async with opened(own_redis, every=60) as store:
        assert await known(store, "u:1", "a", 2) is True
        assert own_redis.process is not None
        own_redis.process.send_signal(signal.SIGSTOP)
        try:
            assert await in_time(counted(store, "u:1", "b", 2)) is None
            assert await in_time(answered(lambda then: store.put("v:1", b"x", 1000, then))) is False
            assert set(await in_time(together(store, 5000))) == {None}
        finally:
            own_redis.process.send_signal(signal.SIGCONT)
        await becomes(own_redis, "a", "SMEMBERS", "scopegate:u:1")
        assert await known(store, "u:1", "c", 2) is True
        assert await known(store, "u:1", "d", 2) is False
        assert store.counts()["unknown"] >= 5002


async def test_a_redis_that_was_restarted_is_asked_again_at_once(own_redis: Redis) -> None:
    async with opened(own_redis, every=60) as store:
        assert await counted(store, "u:1", "a") is True
        await asyncio.to_thread(own_redis.restart)
        assert await counted(store, "u:1", "b") is False  # the connection from before is dead, the count is not


async def test_no_more_than_so_many_questions_wait(own_redis: Redis) -> None:
    async with opened(own_redis, every=60) as store:
        assert await counted(store, "u:0", "a") is True
        assert own_redis.process is not None
        own_redis.process.send_signal(signal.SIGSTOP)
        try:
            answers: list[bool | None] = []
            for number in range(MOST + 100):
                store.acquire(f"u:{number}", "a", 1, 60_000, answers.append)
            assert answers == [None] * 100
        finally:
            own_redis.process.send_signal(signal.SIGCONT)
        await becomes(own_redis, str(MOST + 1), "DBSIZE")  # and the key by which Redis is tried
        assert await counted(store, "u:last", "a") is True
        assert len(answers) == MOST + 100


async def becomes(redis: Redis, wanted: str, *command: str) -> None:
    """Wait until Redis answers so."""
    async with asyncio.timeout(60):
        while await asyncio.to_thread(redis.command, *command) != wanted:  # noqa: ASYNC110 (nothing tells; it is asked)
            await asyncio.sleep(0.02)


async def test_a_time_limit_ends_whatever_asks_redis_in_a_loop(redis_server: Redis) -> None:
    """A cancellation that comes while a command is sent is not lost, as it is with `wait_for` of Python 3.11."""
    client = redis_client(redis_server.url, timeout=30.0, connect_timeout=30.0)
    asked = rounds = 0

    async def asks() -> None:
        nonlocal asked
        for _ in range(10_000):
            await client.get("scopegate:nothing")
            asked += 1

    try:
        while rounds < 30 or (not asked and rounds < 6000):  # a Redis that stands still answers none of the first
            rounds += 1
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await asks()
    finally:
        await client.aclose()
    assert asked > 0
