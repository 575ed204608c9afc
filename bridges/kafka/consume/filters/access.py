"""Reads the fields of a message from the Kafka record that stores it (FX 2-5, KM-13). Pure.

A record that the gateway wrote has the encoded sections of its message in the header `amqp.bare`, where they are read
like those of any message. The headers of any other record are the application properties; those of a CloudEvent have
other names in the message. Every other field is read from the encoded message.

An `amqp.bare` that no gateway reads makes a record one of another producer, which is encoded before it is evaluated.
The digest in `amqp.bare` is not checked here: it covers the value, and the cost of a filter must not depend on the size
of the records that it skips. If a tool has changed a record, its headers take precedence over the stored sections.
Therefore application properties are looked up in both; a record that may match is encoded, which checks the digest, and
the filter is evaluated again. Properties and annotations are looked up only in the stored sections: a record whose
headers have other values of them may be skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from bridges.kafka.records.annotations import OFFSET, SOURCE_PARTITION, TIMESTAMP, TIMESTAMP_TYPE, TYPES, offset_text
from bridges.kafka.records.cloudevents import HEADER_PREFIX, VERSION, event_header, event_value
from bridges.kafka.records.encode import MESSAGE as WHOLE_MESSAGE
from bridges.kafka.records.envelope import BARE, Header, stored_sections
from bridges.kafka.records.headers import BODY, RESERVED, as_property
from bridges.kafka.records.record import KafkaRecord
from bridges.kafka.records.routing import ROUTING, routing_value
from gateway.amqp.codec.codec import Symbol, Timestamp
from gateway.amqp.message.section_index import SectionOffsets
from gateway.filters.evaluate.access import ABSENT, MALFORMED, Access, Encoded, Entries, MessageAccess, Reader, Slotted
from gateway.filters.predicate import MessageSection

HeaderMap = dict[str, bytes | None]
"""The headers of a record; if a name occurs several times, its last one."""
Written = tuple[bytes, SectionOffsets, KafkaRecord]
"""A record that the gateway wrote: its stored sections, their offsets, and the record."""
Plain = tuple[HeaderMap, KafkaRecord]
"""A record of another producer."""
MESSAGE: Final = MessageAccess()
WHOLE: Final = BODY, WHOLE_MESSAGE
"""The header of a record whose value is a whole message."""
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
"""The sections that can be read from a record that the gateway wrote."""
IN_HEADERS: Final = frozenset({MessageSection.APPLICATION_PROPERTIES, MessageSection.DELIVERY_ANNOTATIONS})
"""The sections that can be read from the headers of any other record."""


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
"""Readers of the delivery annotations of an event, by name (ES 5.1)."""


def _log(names: tuple[str, ...]) -> Reader[Written | Plain]:
    """Reads delivery annotations from the record, which is the last item of its source (ES 5.1)."""
    readers = [_LOG.get(name, _absent) for name in names]

    def read(source: Written | Plain) -> Sequence[object]:
        record = source[-1]
        return [reader(record) for reader in readers]

    return read


class _LogEntries:
    """The same for names that are added and removed; names of other annotations are always absent."""

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
    """Records that the gateway wrote; their stored sections are read like those of a message."""

    def reader(self, section: MessageSection, names: tuple[str, ...]) -> Reader[Written]:
        """See `Access`."""
        if section is MessageSection.DELIVERY_ANNOTATIONS:
            return _log(names)
        return _without_record(MESSAGE.reader(section, names))

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


def _without_record(read: Reader[Encoded]) -> Reader[Written]:
    return lambda source: read(source[:2])


class PlainAccess(Access[Plain]):
    """Records of other producers: headers as application properties (KM-5)."""

    def reader(self, section: MessageSection, names: tuple[str, ...]) -> Reader[Plain]:
        """See `Access`."""
        if section is MessageSection.DELIVERY_ANNOTATIONS:
            return _log(names)
        visible = [name for name in names if not name.startswith(RESERVED)]
        slots = [(slot, name) for slot, name in enumerate(names) if name in visible]
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
    """Headers as application properties, for names that are added and removed."""

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
    """Records that are CloudEvents; attributes have their names of the AMQP binding (KM-13)."""

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
    """Headers of a CloudEvent as application properties, for names that are added and removed."""

    def __init__(self) -> None:
        self._properties_of: Final[dict[str, dict[str, tuple[int, str | None]]]] = {}
        """For each header: the properties that it may become, with their slots and the headers of these names."""

    def add(self, name: str, slot: int) -> None:
        if not name.startswith(RESERVED):
            header = event_header(name)
            for header_name in {name, header} - {None}:
                self._properties_of.setdefault(str(header_name), {})[name] = slot, header

    def remove(self, name: str) -> None:
        for header_name in {name, event_header(name)} & self._properties_of.keys():
            names = self._properties_of[str(header_name)]
            names.pop(name, None)
            if not names:
                del self._properties_of[str(header_name)]

    def read(self, source: Plain, values: Slotted) -> None:
        headers = source[0]
        for header_name in headers:
            for name, (slot, header) in self._properties_of.get(header_name, _NO_NAMES).items():
                values[slot] = _attribute(headers, name, header)

    def salvage(self, source: Plain, values: Slotted) -> set[int]:
        self.read(source, values)
        return set()


_NO_NAMES: Final[dict[str, tuple[int, str | None]]] = {}


def _attribute(headers: HeaderMap, name: str, header: str | None) -> object:
    """The application property `name`, from the header of the attribute or that called `name`, the later one."""
    header_name = header if header in headers else None
    if name != header and name in headers and not name.startswith(HEADER_PREFIX):
        header_name = _later(headers, name, header_name)
    if header_name is None:
        return ABSENT
    value = as_property(headers[header_name])
    return event_value(name, value) if header_name == header else value


def _later(headers: HeaderMap, name: str, other: str | None) -> str:
    """The later of two headers that become the same property."""
    return name if other is None else max(name, other, key=list(headers).index)


def written_source(headers: list[Header], record: KafkaRecord) -> Written | None:
    """The source for a record that the gateway wrote, and a tool may have changed since.

    None: for any other record, and for a tombstone, whose message gets an annotation when it is encoded.
    """
    name, envelope = headers[-1]
    stored = stored_sections(envelope) if name == BARE else None
    if stored is None or (len(record) == 0 and record.value() is None):
        return None
    return stored[0], stored[1], record


def changed_source(headers: list[Header], record: KafkaRecord) -> tuple[Plain, bool] | None:
    """The source for a record that the gateway wrote if a tool has changed it since, and whether it is a CloudEvent.

    None: the value may then be a whole message, so only the encoded message can be evaluated.
    """
    last = dict(headers)
    return None if BODY in last and WHOLE in headers else ((last, record), VERSION in last)


def plain_source(headers: list[Header], record: KafkaRecord) -> tuple[Plain, bool] | None:
    """The source for a record of another producer, and whether it is a CloudEvent.

    None: the record also has a header of a stored message, so only its encoded message can be evaluated.
    """
    last = dict(headers)
    return None if BARE in last or BODY in last else ((last, record), VERSION in last)
