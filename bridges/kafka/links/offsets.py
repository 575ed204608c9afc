"""The offsets of a topic at which receive links begin (ES 5.1.1, 5.2; KM-7), and at which a drain ends (AMQP 2.6.7)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from typing import Final

import structlog

from bridges.kafka.admin.client import Bounds, Topic
from bridges.kafka.clusters.cluster import COMMITTED, Cluster
from gateway.errors import AmqpError
from gateway.filters.position.event_stream import NEVER, LogPosition, Start, offset_symbol

_GREATEST: Final = (1 << 63) - 1
_DRAIN_ATTEMPTS: Final = 3
"""How often Kafka is asked: a single late answer must not make a drain miss events that are in the log."""
log = structlog.get_logger(logger_name="kafka")


async def start_offsets(
    cluster: Cluster, topic: str, partitions: Iterable[int], position: LogPosition, isolation: str = COMMITTED
) -> tuple[dict[int, int], dict[int, int]]:
    """The first offset to read in each partition, and the end of each; earlier events cannot match `position`.

    Call it before the attach is answered, so that no event added after the answer is missed (ES-1-4). Raises AmqpError.
    """
    read = tuple(partitions)
    bounds = await cluster.bounds(topic, read, isolation)
    ends = {partition: bound.high for partition, bound in bounds.items()}
    starts = {partition: position.first(*bound) for partition, bound in bounds.items()}
    if all(bound.high < position.first_offset for bound in bounds.values()) and position.first_offset < NEVER:
        _warn(topic, position.first_offset)
    time = position.after_ms
    if position.start is Start.LATEST or time is None or cluster.plain or not 0 <= time < _GREATEST:
        return starts, ends
    since = await cluster.first_since(topic, read, time + 1)
    for partition, offset in since.items():  # only a lower bound: each event is still compared (ES-5.2-5)
        high = bounds[partition].high
        starts[partition] = max(starts[partition], high if offset < 0 else min(offset, high))
    return starts, ends


async def end_offsets(cluster: Cluster, topic: Topic, isolation: str) -> dict[int, int]:
    """The end of each partition for readers of this isolation level; raises AmqpError."""
    bounds = await cluster.bounds(topic.name, range(topic.partitions), isolation)
    return {partition: bound.high for partition, bound in bounds.items()}


async def drain_ends(cluster: Cluster, topic: str, partitions: Iterable[int], isolation: str) -> dict[int, int]:
    """The offset at which each partition ends now; empty if Kafka does not answer, so that the drain ends at once."""
    drained = tuple(partitions)
    bounds: dict[int, Bounds] = {}
    for _ in range(_DRAIN_ATTEMPTS if drained else 0):
        with contextlib.suppress(AmqpError):
            bounds = await cluster.bounds(topic, drained, isolation)
            break
    return {partition: found.high for partition, found in bounds.items()}


def at_ends(positions: Mapping[int, int], ends: Mapping[int, int]) -> bool:
    """Whether everything before `ends` has been sent; partitions that the link has lost count as sent."""
    return all(positions.get(partition, end) >= end for partition, end in ends.items())


def clamp(topic: str, stored: Mapping[int, int], ends: Mapping[int, int]) -> dict[int, int]:
    """Stored positions, limited to the ends of their partitions.

    A position after the end means that the log has lost its last events (an unclean election, a restored disk). Events
    that are added then are new, although their offsets were read before.
    """
    beyond = {partition: (at, ends[partition]) for partition, at in stored.items() if at > ends[partition]}
    for partition, (at, end) in beyond.items():
        log.error("log ends before a stored position", topic=topic, partition=partition, position=at, end=end)
    return {partition: min(at, ends[partition]) for partition, at in stored.items()}


def _warn(topic: str, first: int) -> None:
    """Log that a link waits for a distant offset: usually the topic was deleted and created again (KM-18)."""
    advice = "has the topic been deleted and created again? Then what the client remembers means nothing in it"
    log.warning("link waits for offsets that do not exist yet", topic=topic, first=offset_symbol(first), advice=advice)
