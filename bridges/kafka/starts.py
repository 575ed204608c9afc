"""Where a new receive link begins, per partition (ES 5.1.1, 5.2; KM-7)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bridges.kafka.cluster import COMMITTED, Cluster
from gateway.filters.event_stream import Position, Start

_GREATEST: Final = (1 << 63) - 1


async def resolve(
    cluster: Cluster, topic: str, partitions: Iterable[int], position: Position, isolation: str = COMMITTED
) -> tuple[dict[int, int], dict[int, int]]:
    """The first offset to read in each partition, and the end of each; events before cannot match `position`.

    Done before the attach is answered: an event appended after the answer is never missed (ES-1-4).
    """
    wanted = tuple(partitions)
    bounds = await cluster.bounds(topic, wanted, isolation)
    ends = {partition: bound.high for partition, bound in bounds.items()}
    starts = {partition: position.first(*bound) for partition, bound in bounds.items()}
    time = position.after_ms
    if position.start is Start.LATEST or time is None or cluster.plain or not 0 <= time < _GREATEST:
        return starts, ends
    since = await cluster.first_since(topic, wanted, time + 1)
    for partition, offset in since.items():  # only a hint: each event is still compared (ES-5.2-5)
        high = bounds[partition].high
        starts[partition] = max(starts[partition], high if offset < 0 else min(offset, high))
    return starts, ends
