"""Messages of Event Hubs' clients as the gateway's nodes have them, and events as these clients expect them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from bridges.eventhubs.unpacking import PARTITION_KEY
from gateway.amqp.codec.codec import Long, Symbol, Timestamp, encode
from gateway.amqp.codec.types import Value
from gateway.amqp.message import sections
from gateway.errors import INVALID_FIELD, AmqpError

_PARTITION_KEY: Final = PARTITION_KEY.encode()
_GROUP_KEY: Final = "event-streams-group-key"
_TARGET: Final = "event-streams-target-partition"
_OFFSET, _TIMESTAMP = "event-streams-offset", "event-streams-timestamp"
_OF_LOG: Final = (_OFFSET, _TIMESTAMP, "event-streams-source-partition", "x-opt-kafka-timestamp-type")
_LONGEST_KEY: Final = 128
"""Characters of a partition key."""
Partitioner = Callable[[str], int]
"""The partition of a key."""


class LastEvent(NamedTuple):
    """The end of a partition, for clients that track it (`com.microsoft:enable-receiver-runtime-metric`)."""

    sequence_number: int
    enqueued_ms: int
    read_ms: int


def has_key(data: bytes) -> bool:
    """Whether a message may have a partition key: a fast check."""
    return _PARTITION_KEY in data


def grouped(data: bytes, partitioner: Partitioner | None) -> bytes:
    """The message with its partition key as group key, and with the partition that `partitioner` chooses for it.

    Raises:
        AmqpError: INVALID_FIELD for a key that is no text of at most 128 characters.
    """
    layout = sections.walk(data)
    annotations = data[layout.ma : layout.bare]
    if not annotations or sections.map_entry(annotations, PARTITION_KEY) is None:
        return data
    key = sections.message_annotations(data, layout).get(PARTITION_KEY)
    if not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
        raise AmqpError(INVALID_FIELD, f"{PARTITION_KEY} must be a string of 1 to {_LONGEST_KEY} characters")
    put = {_GROUP_KEY: encode(str(key))}
    changed = sections.edit_map(annotations, put=put, drop=(PARTITION_KEY,))
    if partitioner is None:
        return sections.splice(data, layout, ma=changed)
    target = {_TARGET: encode(Symbol(str(partitioner(str(key)))))}
    return sections.splice(
        data, layout, da=sections.edit_map(data[layout.da : layout.ma], put=target), ma=changed
    )


def event(data: bytes, last: LastEvent | None = None) -> bytes:
    """An event of a log with the annotations that Event Hubs gives it; any other message is unchanged."""
    layout = sections.walk(data)
    if layout.da == layout.ma:
        return data
    marks = sections.delivery_annotations(data, layout)
    offset, time = marks.get(_OFFSET), marks.get(_TIMESTAMP)
    if not isinstance(offset, str) or not offset.isdigit():
        return data
    annotations, drop = data[layout.ma : layout.bare], tuple[str, ...]()
    put = _event_annotations(int(offset), time)
    if annotations and (key := sections.map_entry(annotations, _GROUP_KEY)) is not None:
        put[PARTITION_KEY] = key
        drop = (_GROUP_KEY,)
    last_annotations = {} if last is None else _last_annotations(last, int(offset), time)
    return sections.splice(
        data,
        layout,
        da=sections.edit_map(data[layout.da : layout.ma], put=last_annotations, drop=_OF_LOG),
        ma=sections.edit_map(annotations, put=put, drop=drop, code=sections.MESSAGE_ANNOTATIONS),
    )


def _event_annotations(offset: int, time: Value) -> dict[str, bytes]:
    found = {"x-opt-sequence-number": encode(Long(offset)), "x-opt-offset": encode(str(offset))}
    if isinstance(time, Timestamp):
        found["x-opt-enqueued-time"] = encode(time)
    return found


def _last_annotations(last: LastEvent, offset: int, time: Value) -> Mapping[str, bytes]:
    """The last event as far as it is known; it may be the one that is sent, whose time is `time`."""
    number = max(last.sequence_number, offset)
    itself = number == offset and isinstance(time, Timestamp)
    return {
        "last_enqueued_sequence_number": encode(Long(number)),
        "last_enqueued_offset": encode(str(number)),
        "last_enqueued_time_utc": encode(time if itself else Timestamp(last.enqueued_ms)),
        "runtime_info_retrieval_time_utc": encode(Timestamp(last.read_ms)),
    }
