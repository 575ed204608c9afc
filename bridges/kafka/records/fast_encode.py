"""The fast path for usual events, in both directions.

The general form is `mapping`. The messages of usual records differ in few places only: so `mapping` makes one for each
partition, and `_messages.h` fills in these places for run after run. Every unusual record, and every record of a client
that is not read in C, takes the general form. A property holds both equal (tests/property/bridges/kafka/records).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Final, NamedTuple

from bridges.kafka.consume._fetch import Record, Run
from bridges.kafka.records.encode import GROUP_KEY, KAFKA_KEY
from bridges.kafka.records.envelope import BARE, only_data
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.header_names import encoded
from bridges.kafka.records.mapping import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, RecordReader
from bridges.kafka.records.record import KafkaRecord
from bridges.kafka.records.routing import COOKIE_HEADER, REQUEST_HEADERS
from gateway.amqp.codec.codec import Symbol, encode
from gateway.amqp.message.sections import DELIVERY_ANNOTATIONS, walk

if TYPE_CHECKING:
    from bridges.kafka.consume._fetch import Maker

_DATA: Final = b"\x00\x53\x75"
_ZERO_OFFSET: Final = b"0" * 20
_ZERO_TIME: Final = b"\x83" + bytes(8)
_OWN: Final = (BARE.encode(), COOKIE_HEADER.encode(), REQUEST_HEADERS.encode())


def plain_value(data: bytes) -> bytes | None:
    """The body of a message that consists of one data section in its shortest form; else None.

    Such a message is its own record value (KM-13), so it needs neither walk nor mapping.
    """
    return only_data(data, 0, len(data))


class Form(NamedTuple):
    """The constant parts of messages of one partition and kind of time, in the order that `_messages.h` expects."""

    head: bytes
    middle: bytes
    end: bytes
    """Of the delivery annotations: before the offset, from there to the time, and behind that."""
    plain: bytes
    """Behind them in the message of a plain record, up to the size of its value."""
    group: bytes
    key: bytes
    """The names of the message annotations of one with a key: of the key as text, and of the key as it is."""


class EventEncoder:
    """Makes messages of the records of one topic."""

    def __init__(self) -> None:
        self._reader: Final = RecordReader()
        self._makers: Final[dict[int, Maker]] = {}

    @property
    def routed(self) -> bool:
        """Whether some message so far had annotations of response routing."""
        return self._reader.routed

    def events(self, messages: Iterable[KafkaRecord], partition: int) -> tuple[list[EncodedEvent], list[bytes]]:
        """A run of a client's records, and by themselves the messages that begin with a header."""
        if isinstance(messages, Run):
            return messages.events(EncodedEvent, self._maker(partition), partial(self._whole, partition))
        events = [self._event(each, partition) for each in messages]
        return events, [event.data for event in events if event.data[2] != DELIVERY_ANNOTATIONS]

    def event(self, message: KafkaRecord, partition: int) -> EncodedEvent:
        """One of them."""
        if isinstance(message, Record):
            return message.event(EncodedEvent, self._maker(partition), partial(self._whole, partition))
        return self._event(message, partition)

    def _event(self, message: KafkaRecord, partition: int) -> EncodedEvent:
        return EncodedEvent(self._whole(partition, message), partition, message.offset(), time=message.timestamp()[1])

    def _whole(self, partition: int, message: KafkaRecord) -> bytes:
        key, value, headers = message.key(), message.value(), message.headers()
        return self._reader.encode(key, value, headers, partition, message.offset(), *message.timestamp())

    def _maker(self, partition: int) -> Maker:
        maker = self._makers.get(partition)
        if maker is None:
            kinds = NO_TIMESTAMP, CREATE_TIME, LOG_APPEND_TIME
            none, created, appended = (self._learn(partition, kind) for kind in kinds)
            maker = self._makers[partition] = (none, created, appended), _OWN, encoded, sha256
        return maker

    def _learn(self, partition: int, timestamp_type: int) -> Form:
        whole = self._reader.encode(None, b"", None, partition, 0, timestamp_type, 0)
        start = whole.rindex(_DATA) + len(_DATA)
        offset_at, time_at = whole.index(_ZERO_OFFSET), whole.index(_ZERO_TIME) + 1
        end_at = walk(whole).ma
        assert offset_at < time_at < end_at < start
        delivery = whole[:offset_at], whole[offset_at + 20 : time_at], whole[time_at + 8 : end_at]
        return Form(*delivery, whole[end_at:start], encode(Symbol(GROUP_KEY)), encode(Symbol(KAFKA_KEY)))
