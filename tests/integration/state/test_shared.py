"""State: memory needs nothing; a real Redis is noticed, missed and found again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from gateway.state import MemoryState, State, open_state
from gateway.state.redis import RedisState
from gateway.tasks import Supervisor
from tests.support.gateway.process import PATIENCE, free_port
from tests.support.servers.servers import Redis


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.stop()


@asynccontextmanager
async def running(state: State) -> AsyncIterator[State]:
    def failed(name: str, error: BaseException) -> None:
        raise AssertionError(f"{name}: {error!r}")

    supervisor = Supervisor(failed)
    supervisor.start(state.run(), "state")
    try:
        yield state
    finally:
        await supervisor.close()
        await state.close()


async def becomes(state: State, ready: bool) -> str:
    async with asyncio.timeout(PATIENCE):
        while state.ready()[0] is not ready:  # noqa: ASYNC110 (nothing tells; it is asked)
            await asyncio.sleep(0.01)
    return state.ready()[1]


async def says(state: State, text: str) -> str:
    """Wait until the detail has a text; return it."""
    async with asyncio.timeout(PATIENCE):
        while text not in state.ready()[1]:  # noqa: ASYNC110 (nothing tells; it is asked)
            await asyncio.sleep(0.01)
    return state.ready()[1]


async def asked(state: State) -> None:
    async with asyncio.timeout(PATIENCE):
        while state.ready()[1].endswith("not asked yet"):  # noqa: ASYNC110 (nothing tells; it is asked)
            await asyncio.sleep(0.01)


async def test_memory_is_always_ready() -> None:
    async with running(open_state("memory")) as state:
        assert isinstance(state, MemoryState)
        assert state.ready() == (True, "in memory, this process only")


async def test_redis_is_found_missed_and_found_again(own_redis: Redis) -> None:
    async with running(RedisState(own_redis.url, every=0.02)) as state:
        assert not state.ready()[0]
        assert await becomes(state, True) == f"redis 127.0.0.1:{own_redis.port}: connected"
        await asyncio.to_thread(own_redis.kill)
        assert "connected" not in await becomes(state, False)
        await asyncio.to_thread(own_redis.start)
        await becomes(state, True)


async def stored_value(state: RedisState) -> bytes:
    """What is stored; a Redis that does not answer in time is asked again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            future: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
            state.store.get("kept", future.set_result)
            if (value := await future) is not None:
                return value
            await asyncio.sleep(0.01)


@pytest.mark.parametrize(
    ("broken", "mended", "why"),
    [
        (("CONFIG", "SET", "maxmemory", "1"), ("CONFIG", "SET", "maxmemory", "0"), "used memory"),
        (("REPLICAOF", "127.0.0.1", "1"), ("REPLICAOF", "NO", "ONE"), "read only replica"),
    ],
)
async def test_redis_that_stores_nothing_is_not_ready_and_still_read(
    own_redis: Redis, broken: tuple[str, ...], mended: tuple[str, ...], why: str
) -> None:
    def failed(name: str, error: BaseException) -> None:
        raise AssertionError(f"{name}: {error!r}")

    supervisor = Supervisor(failed)
    async with running(RedisState(own_redis.url, every=0.02)) as state:
        assert isinstance(state, RedisState)
        supervisor.start(state.store.run(), "store")
        await becomes(state, True)
        await asyncio.to_thread(own_redis.command, "SET", "scopegate:kept", "value")
        await asyncio.to_thread(own_redis.command, *broken)
        assert why in await says(state, "it cannot be written: ")
        assert not state.ready()[0]
        assert await stored_value(state) == b"value"
        await asyncio.to_thread(own_redis.command, *mended)
        await becomes(state, True)
        await supervisor.close()


async def test_redis_that_is_not_there_yet(own_redis: Redis) -> None:
    await asyncio.to_thread(own_redis.stop)
    async with running(RedisState(own_redis.url, every=0.02)) as state:
        await asked(state)
        assert not state.ready()[0]
        await asyncio.to_thread(own_redis.start)
        await becomes(state, True)


async def test_a_listener_that_never_answers_is_not_ready() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    port = free_port()
    server = await asyncio.start_server(silent, "127.0.0.1", port)
    async with server, running(open_state(f"redis://127.0.0.1:{port}/0")) as state:
        await asked(state)
        assert not state.ready()[0]


async def test_the_urls_password_is_never_shown() -> None:
    async with running(open_state(f"redis://user:hunter2@127.0.0.1:{free_port()}/0")) as state:
        await asked(state)
        assert "hunter2" not in state.ready()[1]
