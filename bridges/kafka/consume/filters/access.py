"""The fields of a message, read from the Kafka record that it is stored as (FX 2-5, KM-13). Pure.

A record that the gateway wrote holds the encoded sections of its message in the header `amqp.bare`: they are read there
like those of any message. The headers of any other record are the application properties; those of a CloudEvent have
other names in the message. Everything else a filter may ask for is read from the encoded message.

Nothing here checks the digest in `amqp.bare`: it covers the value, and the cost of a filter must not depend on the size
of the records that it skips. Where a tool has changed a record, its headers count and not what is stored. Therefore
application properties are looked up in both; a record that may match is encoded, which checks the digest, and the
filter is evaluated again. Properties and annotations are looked up only where they are stored: a record whose headers
say otherwise about those may be skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from bridges.kafka.records.annotations import OFFSET, SOURCE_PARTITION, TIMESTAMP, TIMESTAMP_TYPE, TYPES, offset_text
from bridges.kafka.records.cloudevents import HEADER_PREFIX, VERSION, event_header, event_value
from bridges.kafka.records.envelope import BARE, Header
from bridges.kafka.records.headers import BODY, RESERVED, as_property
from bridges.kafka.records.record import KafkaRecord
from bridges.kafka.records.routing import ROUTING, routing_value
from gateway.amqp.codec.codec import Symbol, Timestamp
from gateway.amqp.message.section_index import SectionOffsets
from gateway.filters.evaluate.access import ABSENT, MALFORMED, Access, Encoded, Entries, MessageAccess, Reader, Slotted
from gateway.filters.predicate import MessageSection

HeaderMap = dict[str, bytes | None]
"""The headers of a record; of several with one name the last."""
Written = tuple[bytes, SectionOffsets, KafkaRecord]
"""A record that the gateway wrote: its stored sections, their offsets, and the record."""
Plain = tuple[HeaderMap, KafkaRecord]
"""A record of another producer."""
MESSAGE: Final = MessageAccess()
STORED: Final = frozenset(
    {
        MessageSection.HEADER,
        MessageSection.MESSAGE_ANNOTATIONS,
        MessageSection.PROPERTIES,
        MessageSection.APPLICATION_PROPERTIES,
        MessageSection.FOOTER,
        MessageSection.DELIVERY_ANNOTATIONS,
    }
)
"""The sections that can be read of a record that the gateway wrote."""
SHOWN: Final = frozenset({MessageSection.APPLICATION_PROPERTIES, MessageSection.DELIVERY_ANNOTATIONS})
"""The sections that can be read of any other record."""


def _absent(record: KafkaRecord) -> object:
    return ABSENT


def _routing(name: str, record: KafkaRecord) -> object:
    value = routing_value(record.headers(), name)
    return ABSENT if value is None else value


_LOG: Final[dict[str, Callable[[KafkaRecord], object]]] = {
    **{name: partial(_routing, name) for name in ROUTING},
    OFFSET: lambda record: Symbol(offset_text(record.offset())),
    TIMESTAMP: lambda record: Timestamp(max(0, record.timestamp()[1])),
    SOURCE_PARTITION: lambda record: Symbol(str(record.partition())),
    TIMESTAMP_TYPE: lambda record: TYPES[record.timestamp()[0]],
}
"""How the delivery annotations of an event are read (ES 5.1)."""


def _log(names: tuple[str, ...]) -> Reader[Written | Plain]:
    """The delivery annotations of an event, from the record that is last in its source (ES 5.1)."""
    readers = [_LOG.get(name, _absent) for name in names]

    def read(source: Written | Plain) -> Sequence[object]:
        record = source[-1]
        return [reader(record) for reader in readers]

    return read


class _LogEntries:
    """The same for names that come and go; a name that is no delivery annotation of an event is always absent."""

    def __init__(self) -> None:
        self._readers: Final[dict[str, tuple[int, Callable[[KafkaRecord], object]]]] = {}

    def add(self, name: str, slot: int) -> None:
        if name in _LOG:
            self._readers[name] = slot, _LOG[name]

    def remove(self, name: str) -> None:
        self._readers.pop(name, None)

    def read(self, source: Written | Plain, values: Slotted) -> None:
        record = source[-1]
        for slot, reader in self._readers.values():
            values[slot] = reader(record)

    def salvage(self, source: Written | Plain, values: Slotted) -> set[int]:
        record, bad = source[-1], set[int]()
        for slot, reader in self._readers.values():
            try:
                values[slot] = reader(record)
            except MALFORMED:
                bad.add(slot)
        return bad


class WrittenAccess(Access[Written]):
    """Records that the gateway wrote: their stored sections are read like those of a message."""

    def reader(self, section: MessageSection, names: tuple[str, ...]) -> Reader[Written]:
        """See `Access`."""
        if section is MessageSection.DELIVERY_ANNOTATIONS:
            return _log(names)
        return _apart(MESSAGE.reader(section, names))

    def entries(self, section: MessageSection) -> Entries[Written]:
        """See `Access`."""
        return _LogEntries() if section is MessageSection.DELIVERY_ANNOTATIONS else _Stored(MESSAGE.entries(section))

    def prefilter(self, section: MessageSection, texts: tuple[bytes, ...]) -> Callable[[Written], bool] | None:
        """See `Access`."""
        if section is MessageSection.DELIVERY_ANNOTATIONS:
            return None
        test = MESSAGE.prefilter(section, texts)
        return None if test is None else lambda source: test(source[:2])


class _Stored:
    """The fields of the stored sections."""

    def __init__(self, entries: Entries[Encoded]) -> None:
        self.add: Final = entries.add
        self.remove: Final = entries.remove
        self._read: Final = entries.read
        self._salvage: Final = entries.salvage

    def read(self, source: Written, values: Slotted) -> None:
        self._read(source[:2], values)

    def salvage(self, source: Written, values: Slotted) -> set[int]:
        return self._salvage(source[:2], values)


def _apart(read: Reader[Encoded]) -> Reader[Written]:
    return lambda source: read(source[:2])


class PlainAccess(Access[Plain]):
    """Records of other producers: headers as application properties (KM-5)."""

    def reader(self, section: MessageSection, names: tuple[str, ...]) -> Reader[Plain]:
        """See `Access`."""
        if section is MessageSection.DELIVERY_ANNOTATIONS:
            return _log(names)
        shown = [name for name in names if not name.startswith(RESERVED)]
        slots = [(slot, name) for slot, name in enumerate(names) if name in shown]
        blank: list[object] = [ABSENT] * len(names)

        def read(source: Plain) -> Sequence[object]:
            headers, values = source[0], blank.copy()
            for slot, name in slots:
                if name in headers:
                    values[slot] = as_property(headers[name])
            return values

        return read

    def entries(self, section: MessageSection) -> Entries[Plain]:
        """See `Access`."""
        return _LogEntries() if section is MessageSection.DELIVERY_ANNOTATIONS else _Headers()


class _Headers:
    """Headers as application properties, under names that come and go."""

    def __init__(self) -> None:
        self._slots: Final[dict[str, int]] = {}

    def add(self, name: str, slot: int) -> None:
        if not name.startswith(RESERVED):
            self._slots[name] = slot

    def remove(self, name: str) -> None:
        self._slots.pop(name, None)

    def read(self, source: Plain, values: Slotted) -> None:
        slots = self._slots
        for name, content in source[0].items():
            if name in slots:
                values[slots[name]] = as_property(content)

    def salvage(self, source: Plain, values: Slotted) -> set[int]:
        self.read(source, values)
        return set()


class EventAccess(Access[Plain]):
    """Records that are CloudEvents: attributes have their names in AMQP's binding (KM-13)."""

    def reader(self, section: MessageSection, names: tuple[str, ...]) -> Reader[Plain]:
        """See `Access`."""
        if section is MessageSection.DELIVERY_ANNOTATIONS:
            return _log(names)
        slots = [(slot, name, event_header(name)) for slot, name in enumerate(names) if not name.startswith(RESERVED)]
        blank: list[object] = [ABSENT] * len(names)

        def read(source: Plain) -> Sequence[object]:
            headers, values = source[0], blank.copy()
            for slot, name, header in slots:
                values[slot] = _attribute(headers, name, header)
            return values

        return read

    def entries(self, section: MessageSection) -> Entries[Plain]:
        """See `Access`."""
        return _LogEntries() if section is MessageSection.DELIVERY_ANNOTATIONS else _Attributes()


class _Attributes:
    """Headers of a CloudEvent as application properties, under names that come and go."""

    def __init__(self) -> None:
        self._shown_as: Final[dict[str, dict[str, tuple[int, str | None]]]] = {}
        """The names that a header may be shown under, with their slots and the headers of their own."""

    def add(self, name: str, slot: int) -> None:
        if not name.startswith(RESERVED):
            header = event_header(name)
            for found in {name, header} - {None}:
                self._shown_as.setdefault(str(found), {})[name] = slot, header

    def remove(self, name: str) -> None:
        for found in {name, event_header(name)} & self._shown_as.keys():
            names = self._shown_as[str(found)]
            names.pop(name, None)
            if not names:
                del self._shown_as[str(found)]

    def read(self, source: Plain, values: Slotted) -> None:
        headers = source[0]
        for found in headers:
            for name, (slot, header) in self._shown_as.get(found, _NO_NAMES).items():
                values[slot] = _attribute(headers, name, header)

    def salvage(self, source: Plain, values: Slotted) -> set[int]:
        self.read(source, values)
        return set()


_NO_NAMES: Final[dict[str, tuple[int, str | None]]] = {}


def _attribute(headers: HeaderMap, name: str, header: str | None) -> object:
    """The application property `name`, from its own header or from one of the same name; the later one counts."""
    found = header if header in headers else None
    if name != header and name in headers and not name.startswith(HEADER_PREFIX):
        found = _later(headers, name, found)
    if found is None:
        return ABSENT
    value = as_property(headers[found])
    return event_value(name, value) if found == header else value


def _later(headers: HeaderMap, name: str, other: str | None) -> str:
    """The later of a header and the one that is delivered under the same name."""
    return name if other is None else max(name, other, key=list(headers).index)


def plain_source(headers: list[Header], record: KafkaRecord) -> tuple[Plain, bool] | None:
    """The source for a record of another producer, and whether it is a CloudEvent.

    None: the record holds a stored message, too, so that only its encoded message can be evaluated.
    """
    last = dict(headers)
    if BARE in last or BODY in last:
        return None
    return (last, record), VERSION in last
