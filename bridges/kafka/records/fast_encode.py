"""The fast path for most events, in both directions.

`mapping` is the general implementation. The messages of most records differ only in a few places: `mapping` makes one
for each partition as a template, and `_messages.h` fills in these places for whole runs of records. All other records,
and those of clients that the C code does not support, use `mapping`. A property test compares both
(tests/property/bridges/kafka/records).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from bridges.kafka.consume._fetch import Record, Run
from bridges.kafka.records.digest import sha256
from bridges.kafka.records.encode import GROUP_KEY, KAFKA_KEY
from bridges.kafka.records.envelope import BARE, only_data
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.header_names import encoded
from bridges.kafka.records.mapping import CREATE_TIME, LOG_APPEND_TIME, NO_TIMESTAMP, RecordReader
from bridges.kafka.records.record import KafkaRecord
from bridges.kafka.records.routing import COOKIE_HEADER, REQUEST_HEADERS
from gateway.amqp.codec.codec import Symbol, encode
from gateway.amqp.message._sections import may_have_ttl
from gateway.amqp.message.sections import walk

if TYPE_CHECKING:
    from bridges.kafka.consume._fetch import Maker

_DATA: Final = b"\x00\x53\x75"
_ZERO_OFFSET: Final = b"0" * 20
_ZERO_TIME: Final = b"\x83" + bytes(8)
_OWN: Final = (BARE.encode(), COOKIE_HEADER.encode(), REQUEST_HEADERS.encode())


def plain_value(data: bytes) -> bytes | None:
    """The content of a message that is one data section in its shortest form; else None.

    It is the value of the record (KM-13), so the message needs neither an index of its sections nor mapping.
    """
    return only_data(data, 0, len(data))


class MessageTemplate(NamedTuple):
    """The constant parts of messages of one partition and timestamp type, in the order that `_messages.h` expects."""

    head: bytes
    middle: bytes
    end: bytes
    """The delivery annotations before the offset, between offset and time, and after the time."""
    plain: bytes
    """What follows in the message of a record without key and headers, up to the size of its value."""
    group: bytes
    key: bytes
    """The names of the message annotations for the key of a record: as a text, and as binary."""


class EventEncoder:
    """Encodes the records of one topic as messages."""

    def __init__(self) -> None:
        self._reader: Final = RecordReader()
        self._makers: Final[dict[int, Maker]] = {}

    @property
    def routed(self) -> bool:
        """Whether any message so far had annotations of response routing."""
        return self._reader.routed

    def events(self, messages: Iterable[KafkaRecord], partition: int) -> tuple[list[EncodedEvent], list[bytes]]:
        """All records as events, and the messages among them that may have a ttl."""
        if isinstance(messages, Run):
            return messages.events(EncodedEvent, self._maker(partition), partial(self._encode, partition))
        events = [self._event(each, partition) for each in messages]
        return events, [event.data for event in events if may_have_ttl(event.data)]

    def event(self, message: KafkaRecord, partition: int) -> EncodedEvent:
        """One record as an event."""
        if isinstance(message, Record):
            return message.event(EncodedEvent, self._maker(partition), partial(self._encode, partition))
        return self._event(message, partition)

    def _event(self, message: KafkaRecord, partition: int) -> EncodedEvent:
        return EncodedEvent(self._encode(partition, message), partition, message.offset(), time=message.timestamp()[1])

    def _encode(self, partition: int, message: KafkaRecord) -> bytes:
        key, value, headers = message.key(), message.value(), message.headers()
        return self._reader.encode(key, value, headers, partition, message.offset(), *message.timestamp())

    def _maker(self, partition: int) -> Maker:
        maker = self._makers.get(partition)
        if maker is None:
            kinds = NO_TIMESTAMP, CREATE_TIME, LOG_APPEND_TIME
            none, created, appended = (self._template(partition, kind) for kind in kinds)
            maker = self._makers[partition] = (none, created, appended), _OWN, encoded, sha256
        return maker

    def _template(self, partition: int, timestamp_type: int) -> MessageTemplate:
        whole = self._reader.encode(None, b"", None, partition, 0, timestamp_type, 0)
        start = whole.rindex(_DATA) + len(_DATA)
        offset_at, time_at = whole.index(_ZERO_OFFSET), whole.index(_ZERO_TIME) + 1
        end_at = walk(whole).ma
        assert offset_at < time_at < end_at < start
        delivery = whole[:offset_at], whole[offset_at + 20 : time_at], whole[time_at + 8 : end_at]
        return MessageTemplate(*delivery, whole[end_at:start], encode(Symbol(GROUP_KEY)), encode(Symbol(KAFKA_KEY)))
