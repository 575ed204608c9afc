"""`$management`: the properties of event hubs and of their partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from bridges.eventhubs.conditions import error_of
from bridges.eventhubs.info import Hub, PartitionEnds
from bridges.eventhubs.requests import NodeRequest, RequestAnswer, failed
from gateway.amqp.codec.types import Array, Int, Long, Timestamp, ValueMap
from gateway.errors import INVALID_FIELD, NOT_FOUND, NOT_IMPLEMENTED, AmqpError, quoted

HUB: Final = "com.microsoft:eventhub"
PARTITION: Final = "com.microsoft:partition"
_UNKNOWN: Final = Timestamp(0)
"""Times that nothing here knows: the creation of a topic, and the time of the last event before it is read."""


class HubInfo(Protocol):
    """What reads an event hub's properties for a request."""

    def __call__(self, request: NodeRequest, hub: str, then: Callable[[Hub | AmqpError], None]) -> None:
        """Call `then` with the hub's partitions; raises AmqpError if the request may not know them."""


def respond(info: HubInfo, request: NodeRequest, answered: Callable[[RequestAnswer], None]) -> None:
    """Answer a request for properties; raises AmqpError for one that has no meaning."""
    operation, kind, hub = request.text("operation"), request.text("type"), request.text("name")
    if operation != "READ" or kind not in (HUB, PARTITION):
        raise AmqpError(NOT_IMPLEMENTED, f"{quoted(operation)} of {quoted(kind)}: only READ of {HUB} and {PARTITION}")
    if not hub:
        raise AmqpError(INVALID_FIELD, "the application property name must be the name of an event hub")
    if kind == PARTITION and not request.text("partition"):
        raise AmqpError(INVALID_FIELD, "the application property partition must be a string, the partition's number")

    def read(found: Hub | AmqpError) -> None:
        answered(failed(error_of(found)) if isinstance(found, AmqpError) else _answer(request, kind, hub, found))

    info(request, hub, read)


def _answer(request: NodeRequest, kind: str, hub: str, found: Hub) -> RequestAnswer:
    if kind == HUB:
        return RequestAnswer(200, "OK", hub_properties(hub, found))
    partition = request.text("partition")
    if partition not in found:
        return failed(AmqpError(NOT_FOUND, f"there is no partition {quoted(partition)}"))
    return RequestAnswer(200, "OK", partition_properties(hub, partition, found[partition]))


def hub_properties(hub: str, found: Hub) -> ValueMap:
    """The body of the answer about an event hub."""
    return {
        "name": hub,
        "type": HUB,
        "created_at": _UNKNOWN,
        "partition_count": Int(len(found)),
        "partition_ids": Array("string", tuple(found)),
        "georeplication_factor": Int(1),
    }


def partition_properties(hub: str, partition: str, ends: PartitionEnds) -> ValueMap:
    """The body of the answer about a partition."""
    return {
        "name": hub,
        "type": PARTITION,
        "partition": partition,
        "begin_sequence_number": Long(ends.first),
        "last_enqueued_sequence_number": Long(ends.last),
        "last_enqueued_offset": str(ends.last),
        "last_enqueued_time_utc": _UNKNOWN,
        "is_partition_empty": ends.empty,
    }
