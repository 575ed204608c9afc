"""Shortcuts for plain events, both ways: no key, no header, one data section and nothing else.

The mapping itself is `records`; what it makes of a plain record differs from event to event in four places only.
So it is asked once per partition, and its answer becomes a template.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from bridges.kafka._fetch import Run
from bridges.kafka.records import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, RecordReader
from bridges.kafka.redelivery import Event

_SMALL: Final = 256
_DATA: Final = b"\x00\x53\x75"
_SMALL_DATA: Final = _DATA + b"\xa0"
_LARGE_DATA: Final = _DATA + b"\xb0"
_ZERO_OFFSET: Final = b"0" * 20
_ZERO_TIME: Final = b"\x83" + bytes(8)
_time: Final = struct.Struct(">q").pack
_size: Final = struct.Struct(">I").pack

Form = tuple[bytes, bytes, bytes]


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
        self._forms: Final[dict[int, tuple[Form, Form, Form]]] = {}

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
        head, middle, tail = self._forms_of(partition)[timestamp_type]
        size = len(value)
        length = b"\xa0%c" % size if size < _SMALL else b"\xb0" + _size(size)
        return b"".join((head, b"%020d" % offset, middle, _time(time), tail, length, value))

    def events(self, messages: Iterable[Any], partition: int) -> tuple[list[Event], list[bytes]]:
        """`encode` for a run of a client's records, and by themselves the messages that may begin with a header."""
        mapped: list[bytes] = []
        whole = partial(self._whole, partition, mapped)
        if isinstance(messages, Run):
            return messages.events(Event, self._forms_of(partition), whole), mapped
        events = [Event(whole(each), partition, each.offset(), time=each.timestamp()[1]) for each in messages]
        return events, mapped

    def _whole(self, partition: int, mapped: list[bytes], message: Any) -> bytes:
        key, value, headers = message.key(), message.value(), message.headers()
        data = self.encode(key, value, headers, partition, message.offset(), *message.timestamp())
        mapped.append(data)
        return data

    def _forms_of(self, partition: int) -> tuple[Form, Form, Form]:
        """What stands before the offset, between it and the time, and behind that, for each kind of time."""
        forms = self._forms.get(partition)
        if forms is None:
            kinds = NO_TIMESTAMP, CREATE_TIME, LOG_APPEND_TIME
            none, created, appended = (self._learn(partition, kind) for kind in kinds)
            forms = self._forms[partition] = none, created, appended
        return forms

    def _learn(self, partition: int, timestamp_type: int) -> Form:
        whole = self._reader.encode(None, b"", None, partition, 0, timestamp_type, 0)
        start = whole.rindex(_DATA) + len(_DATA)
        offset_at, time_at = whole.index(_ZERO_OFFSET), whole.index(_ZERO_TIME) + 1
        assert offset_at < time_at < start
        return whole[:offset_at], whole[offset_at + 20 : time_at], whole[time_at + 8 : start]
