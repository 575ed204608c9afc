"""The offsets at which a subscription starts: looked up before Create is answered, and stored with it (CE 3.2.1)."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.model.values import (
    FromEarliest,
    FromLatest,
    FromOffsets,
    FromTime,
    InvalidSubscription,
    Json,
    Mistake,
    Start,
)
from bridges.kafka.bridge import ClusterBridge
from bridges.kafka.tap import LogStart
from policies.rules import KafkaRoute


class DeliveryProgress(NamedTuple):
    """What a subscription had done at the gateway that it comes from."""

    delivered: int = 0
    """Events that count against `maxevents`."""
    stopped: Reason | None = None
    """Why nothing was sent."""


class StartOffsets(NamedTuple):
    """The start offsets of a subscription; `incarnation` distinguishes it from an earlier one with the same id."""

    incarnation: str
    streams: Mapping[str, LogStart]
    """By address."""
    progress: DeliveryProgress = DeliveryProgress()


def dump_start_offsets(starts: StartOffsets) -> Json:
    """Encode the offsets as JSON for the store."""
    streams: dict[str, Json] = {
        address: {"log": log.identity, "offsets": {str(number): at for number, at in log.offsets.items()}}
        for address, log in starts.streams.items()
    }
    found: dict[str, Json] = {"incarnation": starts.incarnation, "streams": streams}
    delivered, stopped = starts.progress
    more: dict[str, Json] = {"delivered": delivered, "stopped": None if stopped is None else stopped.value}
    return {**found, **{name: value for name, value in more.items() if value}}


def load_start_offsets(stored: Json) -> StartOffsets:
    """Decode the result of `dump_starts`; raises ValueError, KeyError or TypeError for anything else."""
    if not isinstance(stored, dict) or not isinstance(stored["streams"], dict):
        raise TypeError("starts have to be an object")
    stopped, delivered = stored.get("stopped"), int(str(stored.get("delivered", 0)))
    progress = DeliveryProgress(delivered, None if stopped is None else Reason(str(stopped)))
    streams = {name: _log(each) for name, each in stored["streams"].items()}
    return StartOffsets(str(stored["incarnation"]), streams, progress)


def _log(stored: Json) -> LogStart:
    if not isinstance(stored, dict) or not isinstance(stored["offsets"], dict):
        raise TypeError("the start of a stream has to be an object")
    return LogStart(str(stored["log"]), {int(number): int(str(at)) for number, at in stored["offsets"].items()})


async def find_start_offsets(
    addresses: Mapping[str, KafkaRoute],
    start: Start,
    clusters: Mapping[str, ClusterBridge],
    known: StartOffsets | None = None,
) -> StartOffsets:
    """Look up the start offsets of a new subscription, or of the streams that an update adds (`known`: its present).

    Raises AmqpError if a topic does not exist or Kafka does not answer, and Invalid for offsets beyond a log's end.
    """
    streams = {}
    for address, route in addresses.items():
        if known is not None and address in known.streams:
            streams[address] = known.streams[address]
        else:
            streams[address] = await _start_of(clusters[route.cluster], route, start)
    if known is None:
        return StartOffsets(secrets.token_hex(8), streams)
    return known._replace(streams=streams)


async def _start_of(cluster: ClusterBridge, route: KafkaRoute, start: Start) -> LogStart:
    log = cluster.log(route)
    match start:
        case FromLatest():
            return await log.ends()
        case FromEarliest():
            return await log.beginnings()
        case FromTime(time):
            return await log.since(time)
        case FromOffsets(offsets):
            ends = await log.ends()
            if mistakes := tuple(_beyond_end(offsets, ends)):
                raise InvalidSubscription(mistakes)
            return ends._replace(offsets={**ends.offsets, **offsets})


def _beyond_end(offsets: Mapping[int, int], ends: LogStart) -> Iterator[Mistake]:
    """Yield the offsets beyond the log's end, and those of partitions that do not exist."""
    for partition, offset in offsets.items():
        end = ends.offsets.get(partition)
        if end is None:
            yield Mistake(f"/config/start/{partition}", f"no such partition; the stream has {len(ends.offsets)}")
        elif offset > end:
            yield Mistake(f"/config/start/{partition}", f"the partition ends at {end:020d}")
