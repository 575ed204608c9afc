"""The delivery annotations of events (Event Stream Extensions 4.6.4, 5.1), from a template.

A partition is its decimal index (KM-1), an offset has 20 digits (KM-2), so that the order of the texts is the order of
the log. Neither contains `@`, which would make it a special position.
"""

from __future__ import annotations

import struct
from typing import Final

from gateway.amqp.codec.codec import Symbol, Timestamp, encode
from gateway.amqp.message.sections import DELIVERY_ANNOTATIONS, annotations_section

OFFSET: Final = "event-streams-offset"
TIMESTAMP: Final = "event-streams-timestamp"
SOURCE_PARTITION: Final = "event-streams-source-partition"
TIMESTAMP_TYPE: Final = "x-opt-kafka-timestamp-type"
"""The kind of the timestamp (KM-3)."""
TYPES: Final = {0: Symbol("none"), 1: Symbol("create"), 2: Symbol("append")}
"""By the client's number of the timestamp type."""

_time: Final = struct.Struct(">q").pack


def offset_text(offset: int) -> str:
    """The offset as a text of 20 digits."""
    return f"{offset:020d}"


class AnnotationTemplate:
    """The constant parts of the annotations of one partition and timestamp type, encoded once."""

    __slots__ = ("_format", "_kind", "_partition")

    def __init__(self, partition: int, timestamp_type: int) -> None:
        self._partition = Symbol(partition)
        self._kind = TYPES[timestamp_type]
        whole = annotations_section(DELIVERY_ANNOTATIONS, self._entries(0, 0))
        offset_at = whole.index(b"0" * 20)
        time_at = whole.index(b"\x83" + bytes(8)) + 1
        parts = whole[:offset_at], whole[offset_at + 20 : time_at], whole[time_at + 8 :]
        head, middle, tail = (part.replace(b"%", b"%%") for part in parts)
        self._format = head + b"%020d" + middle + b"%b" + tail

    def encode(self, offset: int, ts_ms: int) -> bytes:
        """The section for one event; an event without a timestamp (-1) gets that of 1970-01-01."""
        return self._format % (offset, _time(max(0, ts_ms)))

    def _entries(self, offset: int, ts_ms: int) -> dict[str, bytes]:
        return {
            OFFSET: encode(Symbol(offset_text(offset))),
            TIMESTAMP: encode(Timestamp(ts_ms)),
            SOURCE_PARTITION: encode(self._partition),
            TIMESTAMP_TYPE: encode(self._kind),
        }
