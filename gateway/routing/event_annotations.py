"""Reads the annotations that a log put on an event, and removes them (ES-4.6.4-3, ES-4.6.5-3; X-6).

Offset, timestamp and partitions mean nothing at the event's target; another log adds its own. The group key is a
message annotation of the producer and stays. Pure.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from gateway.amqp.codec.codec import Symbol, encode
from gateway.amqp.message.hop import may_be_annotated
from gateway.amqp.message.sections import delivery_annotations, edit_map, splice, walk
from gateway.errors import AmqpError

PARTITION: Final = "event-streams-partition"
GROUP: Final = "event-streams-consumer-group"
LINK_PROPERTIES: Final = frozenset((PARTITION, GROUP, "event-streams-epoch"))
"""Link properties of event logs (ES 4)."""
CAPABILITY: Final = "AMQP_EVENT_STREAMS_V1_0"
_OFFSET: Final = "event-streams-offset"
_TIMESTAMP: Final = "event-streams-timestamp"
_SOURCE: Final = "event-streams-source-partition"
_ASSOCIATED: Final = "event-streams-associated-partitions-changed"
_ASSIGNED: Final = "event-streams-assigned-partitions-changed"
"""ES 4.6.5 has both spellings."""
_TARGET: Final = "event-streams-target-partition"
_TIMESTAMP_TYPE: Final = "x-opt-kafka-timestamp-type"
_OF_THE_LOG: Final = (_OFFSET, _TIMESTAMP, _TIMESTAMP_TYPE, _SOURCE, _ASSOCIATED, _ASSIGNED)


class Event(NamedTuple):
    """A message without the annotations of its log, and their values; the timestamp is in milliseconds."""

    data: bytes
    offset: str | None = None
    partition: str | None = None
    timestamp: int | None = None


def forwarded(data: bytes) -> bytes:
    """An event without the annotations of its log."""
    return read_event(data).data


def read_event(data: bytes, *, keep_partition: bool = False) -> Event:
    """Separate an event from the annotations of its log.

    `keep_partition`: name its partition as the target partition (ES 4.6.6).
    """
    if not may_be_annotated(data):
        return Event(data)
    try:
        layout = walk(data)
        if layout.da == layout.ma:
            return Event(data)
        annotations = delivery_annotations(data, layout)
        partition = _text(annotations.get(_SOURCE))
        put = {_TARGET: encode(Symbol(partition))} if keep_partition and partition is not None else {}
        left = edit_map(data[layout.da : layout.ma], drop=_OF_THE_LOG, put=put)
        time = annotations.get(_TIMESTAMP)
        timestamp = time if isinstance(time, int) else None
        return Event(splice(data, layout, da=left), _text(annotations.get(_OFFSET)), partition, timestamp)
    except AmqpError:
        return Event(data)  # malformed: the node at the target rejects it


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
