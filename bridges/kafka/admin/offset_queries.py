"""Combines queries for the bounds of logs (KM-7), because thousands of links may attach at the same time.

The answer is never older than the query: a query that is already running is not joined, the next one is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from bridges.kafka.admin.client import Bounds
from gateway.errors import AmqpError
from gateway.tasks import Supervisor

T = TypeVar("T")
Ask = Callable[[str, tuple[int, ...], str], Awaitable[dict[int, Bounds]]]
"""Topic, partitions, isolation; raises AmqpError."""


class _Query:
    def __init__(self) -> None:
        self.partitions: Final[set[int]] = set()
        self.answer: Final[asyncio.Future[dict[int, Bounds]]] = asyncio.get_running_loop().create_future()


class OffsetQueryCoalescer:
    """Runs one query at a time for each topic and isolation level."""

    def __init__(self, ask: Ask, supervisor: Supervisor) -> None:
        self._ask: Final = ask
        self._supervisor: Final = supervisor
        self._waiting: Final[dict[tuple[str, str], _Query]] = {}
        self._running: Final[set[tuple[str, str]]] = set()

    async def bounds(self, topic: str, partitions: Iterable[int], isolation: str) -> dict[int, Bounds]:
        """The bounds of these partitions; a failure for a partition that only others asked for is not raised."""
        wanted, key = tuple(partitions), (topic, isolation)
        query = self._waiting.get(key)
        if query is None:
            query = self._waiting[key] = _Query()
            if key not in self._running:
                self._running.add(key)
                self._supervisor.start(self._run(key), f"kafka-bounds:{topic}")
        query.partitions.update(wanted)
        try:
            found = await asyncio.shield(query.answer)
        except AmqpError:
            if query.partitions == set(wanted):
                raise
            return await self._ask(topic, wanted, isolation)
        return {partition: found[partition] for partition in wanted}

    async def _run(self, key: tuple[str, str]) -> None:
        try:
            while (query := self._waiting.pop(key, None)) is not None:
                query.answer.add_done_callback(mark_retrieved)
                try:
                    query.answer.set_result(await self._ask(key[0], tuple(sorted(query.partitions)), key[1]))
                except Exception as error:
                    query.answer.set_exception(error)
        finally:
            self._running.discard(key)


def mark_retrieved(answer: asyncio.Future[T]) -> None:
    """Mark the error of a future as retrieved: asyncio would log it if nobody waits for the future any more."""
    if not answer.cancelled():
        answer.exception()
