"""Time and durable termini of a process alone (KM-11, AMQP 3.5.3): it begins with the end of what they depend on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from bridges.kafka.links.checkpointer import TerminusCheckpointer, TerminusLease
from bridges.kafka.links.terminus_request import TerminusRequest
from gateway.amqp.link.state import DetachKind
from gateway.errors import AmqpError
from gateway.state.termini.store import MemoryTermini, Save
from gateway.tasks import Supervisor

_SESSION, _HOUR = 1, 3600.0
DAYS = 40 * 24 * 3600 * 1000
REQUEST = TerminusRequest("key", "about", "group", _SESSION, 10, True, "")


class World:
    """A checkpointer whose clock stands still unless it is told."""

    def __init__(self) -> None:
        self.now, self.lost, self.failed = 100.0, list[AmqpError](), list[BaseException]()
        self.supervisor = Supervisor(lambda _, error: self.failed.append(error))
        self.termini = MemoryTermini(lambda: self.now)
        cluster: Any = SimpleNamespace(
            name="main", supervisor=self.supervisor, loop=asyncio.get_running_loop(), commit=self._commit
        )
        self.checkpointer = TerminusCheckpointer(cluster, self.termini)

    async def _commit(self, *_: object) -> None: ...

    async def attached(self) -> TerminusLease:
        held = await self.checkpointer.acquire(REQUEST)
        held.displaced = self.lost.append
        await self.checkpointer.begin(held, "orders", lambda: {0: 7})
        return held


@pytest.fixture
async def world() -> AsyncIterator[World]:
    found = World()
    yield found
    await found.supervisor.close()
    assert not found.failed


async def test_a_process_that_was_stopped_for_long_still_has_what_its_links_keep(world: World) -> None:
    held = await world.attached()
    world.now += _HOUR  # stopped, or the loop was held: nothing was written meanwhile
    world.checkpointer.changed(held)  # type: ignore[arg-type]
    await world.checkpointer.flush()
    assert not world.lost
    assert (await world.checkpointer.acquire(REQUEST)).start == {0: 7}


@pytest.mark.parametrize(("seconds", "start"), [(9, {0: 7}), (11, None)])
async def test_its_time_begins_with_the_end_of_its_link(world: World, seconds: int, start: object) -> None:
    held = await world.attached()
    world.now += _HOUR
    link = SimpleNamespace(left=DetachKind.SESSION, engine=SimpleNamespace(closed=False))
    world.checkpointer.end(held, link)  # type: ignore[arg-type]
    await world.checkpointer.flush()
    world.now += seconds
    assert (await world.checkpointer.acquire(REQUEST)).start == start


async def test_what_was_dropped_before_its_time_is_not_remembered() -> None:
    """Else attaching and closing one durable link, again and again, would fill the memory."""
    termini = MemoryTermini(lambda: 0.0)
    stays = await termini.acquire("stays", "about", DAYS)
    for _ in range(10_000):
        kept = await termini.acquire("key", "about", DAYS)
        await termini.drop("key", kept.token)
    assert len(termini._ends) < 100
    assert await termini.save([Save("stays", stays.token, {0: 1}, DAYS)])
