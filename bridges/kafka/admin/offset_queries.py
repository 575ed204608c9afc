"""Questions for the bounds of logs that come at the same time become one (KM-7): thousands of links attach at once.

Whoever asks gets what Kafka said after it asked: a question under way is never joined, the next one is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

from bridges.kafka.admin.client import Bounds
from gateway.errors import AmqpError
from gateway.tasks import Supervisor

Ask = Callable[[str, tuple[int, ...], str], Awaitable[dict[int, Bounds]]]
"""Topic, partitions, isolation; raises AmqpError."""


class _Question:
    def __init__(self) -> None:
        self.partitions: Final[set[int]] = set()
        self.answer: Final[asyncio.Future[dict[int, Bounds]]] = asyncio.get_running_loop().create_future()


class OffsetQueryCoalescer:
    """One question at a time for each topic."""

    def __init__(self, ask: Ask, supervisor: Supervisor) -> None:
        self._ask: Final = ask
        self._supervisor: Final = supervisor
        self._next: Final[dict[tuple[str, str], _Question]] = {}
        self._busy: Final[set[tuple[str, str]]] = set()

    async def bounds(self, topic: str, partitions: Iterable[int], isolation: str) -> dict[int, Bounds]:
        """The bounds of these partitions; a partition that fails does not keep others from their answer."""
        wanted, key = tuple(partitions), (topic, isolation)
        question = self._next.get(key)
        if question is None:
            question = self._next[key] = _Question()
            if key not in self._busy:
                self._busy.add(key)
                self._supervisor.start(self._work(key), f"kafka-bounds:{topic}")
        question.partitions.update(wanted)
        try:
            found = await asyncio.shield(question.answer)
        except AmqpError:
            if question.partitions == set(wanted):
                raise
            return await self._ask(topic, wanted, isolation)
        return {partition: found[partition] for partition in wanted}

    async def _work(self, key: tuple[str, str]) -> None:
        try:
            while (question := self._next.pop(key, None)) is not None:
                question.answer.add_done_callback(heard)
                try:
                    question.answer.set_result(await self._ask(key[0], tuple(sorted(question.partitions)), key[1]))
                except Exception as error:
                    question.answer.set_exception(error)
        finally:
            self._busy.discard(key)


def heard(answer: asyncio.Future[Any]) -> None:
    """Nobody may be left who asks, or whoever asked has the error already: then its failure is no news."""
    if not answer.cancelled():
        answer.exception()
