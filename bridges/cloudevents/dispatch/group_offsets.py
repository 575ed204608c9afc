"""Positions of subscriptions as committed offsets of Kafka groups, so that lag tools show them (KM-11).

The group of a manager has, for each partition, the lowest offset that some subscription of this process has not
finished. Nothing reads these offsets: the checkpoints are what delivery continues from.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from bridges.cloudevents.dispatch.stored.checkpoint_record import BUCKETS, bucket_of
from bridges.cloudevents.dispatch.worker import DeliveryWorker
from bridges.kafka.tap import TopicLog
from gateway.tasks import TimeSlice

_INTERVAL: Final = 2.0
"""Seconds between two commits."""
_SHARE: Final = 100
"""The pause between two commits is at least so many times as long as collecting the offsets took."""
Offsets = dict[tuple[str, str], dict[int, int]]
"""By group and address, and by partition."""


def group_of(name: str, slices: int, id: str) -> str:
    """The Kafka group of a subscription: `name` is scope and manager; each of several slices has its own."""
    group = f"amqp.subscriptions.{name.replace('/', '.')}"
    return group if slices == 1 else f"{group}.{bucket_of(id) % min(slices, BUCKETS)}"


class GroupOffsets:
    """Commits the positions of a manager's subscriptions that this process delivers."""

    def __init__(
        self, name: str, workers: Mapping[str, DeliveryWorker], log_of: Callable[[str], TopicLog | None]
    ) -> None:
        """`name`: scope and name of the manager."""
        self._name: Final = name
        self._workers: Final = workers
        self._log_of: Final = log_of
        self._committed: Offsets = {}

    async def run(self, slices: Callable[[], int]) -> None:
        """Commit what has changed, until cancelled."""
        loop, pause = asyncio.get_running_loop(), _INTERVAL
        while True:
            await asyncio.sleep(pause)
            begun = loop.time()
            found = await self._lowest(slices())
            pause = max(_INTERVAL, _SHARE * (loop.time() - begun))
            for (group, address), offsets in found.items():
                log = self._log_of(address)
                if log is not None and self._committed.get((group, address)) != offsets:
                    await log.commit(group, offsets)
            self._committed = found

    async def _lowest(self, slices: int) -> Offsets:
        """The lowest unfinished offsets."""
        found: Offsets = {}
        turn = TimeSlice()
        for id, worker in list(self._workers.items()):
            group = group_of(self._name, slices, id)
            for address, at in worker.positions().items():
                offsets = found.setdefault((group, address), {})
                for partition, position in at.positions.items():
                    offsets[partition] = min(position.committed, offsets.get(partition, position.committed))
            await turn.pause()
        return found
