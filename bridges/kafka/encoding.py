"""Shortcuts for plain events, both ways: no key, no header, one data section and nothing else.

The mapping itself is `records`; what it makes of a plain record differs from event to event in four places only.
So it is asked once per partition, and its answer becomes a template.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, Final

from bridges.kafka.records import RecordReader
from bridges.kafka.redelivery import Event

_SMALL: Final = 256
_DATA: Final = b"\x00\x53\x75"
_SMALL_DATA: Final = _DATA + b"\xa0"
_LARGE_DATA: Final = _DATA + b"\xb0"
_ZERO_OFFSET: Final = b"0" * 20
_ZERO_TIME: Final = b"\x83" + bytes(8)
_BLOCK: Final = 1000
_DIGITS: Final = [b"%03d" % number for number in range(_BLOCK)]
"""The last digits of an offset: those before them are the same for many records in a row."""
_new: Final = tuple.__new__
_time: Final = struct.Struct(">q").pack
_size: Final = struct.Struct(">I").pack


def plain_value(data: bytes) -> bytes | None:
    """The body of a message that is one data section and nothing else; None for every other message.

    Such a message is its own record value (KM-13), so it needs neither walk nor mapping.
    """
    size = len(data)
    if data.startswith(_SMALL_DATA):
        return data[5:] if size > 4 and data[4] == size - 5 else None
    if data.startswith(_LARGE_DATA):
        return data[8:] if size > 7 and data[4:8] == _size(size - 8) else None
    return None


class EventEncoder:
    """Makes messages of the records of one topic."""

    def __init__(self) -> None:
        self._reader: Final = RecordReader()
        self._small: Final[dict[tuple[int, int], bytes]] = {}
        self._offset_at: Final[dict[tuple[int, int], int]] = {}

    def encode(
        self,
        key: bytes | None,
        value: bytes | None,
        headers: list[Any] | None,
        partition: int,
        offset: int,
        timestamp_type: int,
        time: int,
    ) -> bytes:
        """The whole message, delivery annotations included."""
        if key is not None or headers or value is None or time < 0:
            return self._reader.encode(key, value, headers, partition, offset, timestamp_type, time)
        template = self._small.get((partition, timestamp_type)) or self._learn(partition, timestamp_type)
        size = len(value)
        length = b"\xa0%c" % size if size < _SMALL else b"\xb0" + _size(size)
        return template % (offset, _time(time), length, value)

    def events(self, messages: Iterable[Any], partition: int) -> list[Event]:
        """`encode` for a run of a client's records: one that differs from the last in offset and value is a join."""
        events: list[Event] = []
        add, new, event, join, digits, head, tail = events.append, _new, Event, b"".join, _DIGITS, b"", b""
        last: object = None
        size = block = -1
        for message in messages:
            value, stamp, offset = message.value(), message.timestamp(), message.offset()
            if value is None or stamp[1] < 0 or message.key() is not None or message.headers():
                last = None
                data = self.encode(message.key(), value, message.headers(), partition, offset, *stamp)
            elif stamp == last and len(value) == size and offset // _BLOCK == block:
                if not head:
                    head, tail = self._around(data, partition, stamp[0], size)
                data = join((head, digits[offset % _BLOCK], tail, value))
            else:
                last, size, block, head = stamp, len(value), offset // _BLOCK, b""
                data = self.encode(None, value, None, partition, offset, *stamp)
            add(new(event, (data, partition, offset, 0, 0, stamp[1])))
        return events

    def _around(self, data: bytes, partition: int, timestamp_type: int, size: int) -> tuple[bytes, bytes]:
        """What stands before the last digits of the offset, and between them and the value."""
        end = self._offset_at[partition, timestamp_type] + len(_ZERO_OFFSET)
        return data[: end - len(_DIGITS[0])], data[end : len(data) - size]

    def _learn(self, partition: int, timestamp_type: int) -> bytes:
        """A format of offset, time, data constructor with size, and value."""
        whole = self._reader.encode(None, b"", None, partition, 0, timestamp_type, 0)
        start = whole.rindex(_DATA) + len(_DATA)
        offset_at, time_at = whole.index(_ZERO_OFFSET), whole.index(_ZERO_TIME) + 1
        assert offset_at < time_at < start
        parts = whole[:offset_at], whole[offset_at + 20 : time_at], whole[time_at + 8 : start]
        head, middle, tail = (part.replace(b"%", b"%%") for part in parts)
        template = head + b"%020d" + middle + b"%b" + tail + b"%b%b"
        self._small[partition, timestamp_type] = template
        self._offset_at[partition, timestamp_type] = offset_at
        return template
