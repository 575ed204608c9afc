"""Filters on Kafka records: fields of the message a record will be, read without making it (FX 2-5, KM-13).

A record that the gateway wrote has its encoded sections in `amqp.bare`: they are read there, as of any message. Of a
record of somebody else's the headers are the application properties, those of a CloudEvent under other names. What is
neither, or what a filter asks for beyond that, is read from the message itself, encoded as it would be delivered. Pure.

Nothing here checks the digest of `amqp.bare`: that covers the value, and a filter should not cost by the size of what
it skips. Where a tool changed a record, its headers count and not what is stored; so application properties are looked
for in both, and what may match is encoded, which checks the digest, and asked once more. Properties and annotations
are looked for only where they are stored: a record whose headers say otherwise about those may be passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from bridges.kafka.consume.record_screen import screen
from bridges.kafka.records.annotations import OFFSET, SOURCE_PARTITION, TIMESTAMP, TIMESTAMP_TYPE, TYPES, offset_text
from bridges.kafka.records.cloudevents import HEADER_PREFIX, VERSION, event_header, event_value
from bridges.kafka.records.envelope import BARE, sections_of
from bridges.kafka.records.headers import BODY, RESERVED, as_property
from bridges.kafka.records.routing import ROUTING, routing_value
from gateway.amqp.codec.codec import Symbol, Timestamp
from gateway.amqp.message.sections import walk
from gateway.errors import AmqpError
from gateway.filters.evaluate.access import ABSENT, MALFORMED, Access, Encoded, Entries, MessageAccess, Reader, Slotted
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.evaluate.compile import sections_of as sections_named
from gateway.filters.predicate import MessageSection, Predicate

Written = tuple[bytes, Any, Any]
"""Of a record of ours: its sections, where they are, and the client's message."""
Plain = tuple[dict[str, bytes | None], Any]
"""Of a record of somebody else's: its headers, the last of each name, and the client's message."""
Whole = Callable[[Any], bytes]
"""The message of a record, encoded."""
_MESSAGE: Final = MessageAccess()
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
SHOWN: Final = frozenset({MessageSection.APPLICATION_PROPERTIES, MessageSection.DELIVERY_ANNOTATIONS})


def _absent(message: Any) -> Any:
    return ABSENT


def _routing(name: str, message: Any) -> Any:
    value = routing_value(message.headers(), name)
    return ABSENT if value is None else value


_LOG: Final[dict[str, Callable[[Any], Any]]] = {
    **{name: partial(_routing, name) for name in ROUTING},
    OFFSET: lambda message: Symbol(offset_text(message.offset())),
    TIMESTAMP: lambda message: Timestamp(max(0, message.timestamp()[1])),
    SOURCE_PARTITION: lambda message: Symbol(str(message.partition())),
    TIMESTAMP_TYPE: lambda message: TYPES[message.timestamp()[0]],
}


def _log(names: tuple[str, ...], place: int) -> Reader[Any]:
    """The delivery annotations of an event, from the client's message at `source[place]` (ES 5.1)."""
    readers = [_LOG.get(name, _absent) for name in names]

    def read(source: Any) -> Sequence[Any]:
        message = source[place]
        return [reader(message) for reader in readers]

    return read


class _LogEntries:
    """The same for names that come and go; those that the log does not say are always absent."""

    def __init__(self, place: int) -> None:
        self._place: Final = place
        self._readers: Final[dict[str, tuple[int, Callable[[Any], Any]]]] = {}

    def add(self, name: str, slot: int) -> None:
        if name in _LOG:
            self._readers[name] = slot, _LOG[name]

    def remove(self, name: str) -> None:
        self._readers.pop(name, None)

    def read(self, source: Any, values: Slotted) -> None:
        message = source[self._place]
        for slot, reader in self._readers.values():
            values[slot] = reader(message)

    def salvage(self, source: Any, values: Slotted) -> set[int]:
        message, bad = source[self._place], set[int]()
        for slot, reader in self._readers.values():
            try:
                values[slot] = reader(message)
            except MALFORMED:
                bad.add(slot)
        return bad


class WrittenAccess(Access[Written]):
    """Records of ours: their stored sections are read like those of a message."""

    def reader(self, section: MessageSection, names: tuple[str, ...]) -> Reader[Written]:
        """See `Access`."""
        if section is MessageSection.DELIVERY_ANNOTATIONS:
            return _log(names, 2)
        return _apart(_MESSAGE.reader(section, names))

    def entries(self, section: MessageSection) -> Entries[Written]:
        """See `Access`."""
        return _LogEntries(2) if section is MessageSection.DELIVERY_ANNOTATIONS else _Stored(_MESSAGE.entries(section))

    def screen(self, section: MessageSection, needles: tuple[bytes, ...]) -> Callable[[Written], bool] | None:
        """See `Access`."""
        if section is MessageSection.DELIVERY_ANNOTATIONS:
            return None
        test = _MESSAGE.screen(section, needles)
        return None if test is None else lambda source: test(source[:2])


class _Stored:
    """Fields of the stored sections."""

    def __init__(self, entries: Entries[Encoded]) -> None:
        self.add: Final = entries.add
        self.remove: Final = entries.remove
        self._read: Final = entries.read
        self._salvage: Final = entries.salvage

    def read(self, source: Written, values: Slotted) -> None:
        self._read(source[:2], values)

    def salvage(self, source: Written, values: Slotted) -> set[int]:
        return self._salvage(source[:2], values)


def _apart(read: Reader[Any]) -> Reader[Written]:
    return lambda source: read(source[:2])


class PlainAccess(Access[Plain]):
    """Records of somebody else's: headers as application properties (KM-5)."""

    def reader(self, section: MessageSection, names: tuple[str, ...]) -> Reader[Plain]:
        """See `Access`."""
        if section is MessageSection.DELIVERY_ANNOTATIONS:
            return _log(names, 1)
        shown = [name for name in names if not name.startswith(RESERVED)]
        slots = [(slot, name) for slot, name in enumerate(names) if name in shown]
        blank: list[Any] = [ABSENT] * len(names)

        def read(source: Plain) -> Sequence[Any]:
            headers, values = source[0], blank.copy()
            for slot, name in slots:
                if name in headers:
                    values[slot] = as_property(headers[name])
            return values

        return read

    def entries(self, section: MessageSection) -> Entries[Plain]:
        """See `Access`."""
        return _LogEntries(1) if section is MessageSection.DELIVERY_ANNOTATIONS else _Headers()


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
            return _log(names, 1)
        slots = [(slot, name, event_header(name)) for slot, name in enumerate(names) if not name.startswith(RESERVED)]
        blank: list[Any] = [ABSENT] * len(names)

        def read(source: Plain) -> Sequence[Any]:
            headers, values = source[0], blank.copy()
            for slot, name, header in slots:
                values[slot] = _attribute(headers, name, header)
            return values

        return read

    def entries(self, section: MessageSection) -> Entries[Plain]:
        """See `Access`."""
        return _LogEntries(1) if section is MessageSection.DELIVERY_ANNOTATIONS else _Attributes()


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


def _attribute(headers: dict[str, Any], name: str, header: str | None) -> Any:
    """The application property `name`: of its own header, or of one with this name; the later one counts."""
    found = header if header in headers else None
    if name != header and name in headers and not name.startswith(HEADER_PREFIX):
        found = _later(headers, name, found)
    if found is None:
        return ABSENT
    value = as_property(headers[found])
    return event_value(name, value) if found == header else value


def _later(headers: dict[str, Any], name: str, other: str | None) -> str:
    """Of a header and the one that is shown under its name, what comes later: it counts."""
    return name if other is None else max(name, other, key=list(headers).index)


def plain_source(headers: list[Any], message: Any) -> tuple[Plain, bool] | None:
    """A record of somebody else's and whether it is a CloudEvent; None: only its message tells.

    Of headers of one name the last counts.
    """
    last = dict(headers)
    if BARE in last or BODY in last:
        return None
    return (last, message), VERSION in last


class RecordFilter:
    """One predicate, for all kinds of records."""

    def __init__(self, predicate: Predicate) -> None:
        self.predicate: Final = predicate
        named = sections_named(predicate)
        self._whole: Final = compile_filter(predicate, _MESSAGE)
        self._screen: Final = screen(predicate)
        self._written: Final = compile_filter(predicate, WrittenAccess()) if named <= STORED else None
        self._plain: Final = compile_filter(predicate, PlainAccess()) if named <= SHOWN else None
        self._event: Final = compile_filter(predicate, EventAccess()) if named <= SHOWN else None

    def candidates(self, messages: Sequence[Any]) -> list[Any]:
        """Those whose encoded message has to be asked; the others do not match."""
        may_match = self.may_match
        if self._screen is not None:
            messages = self._screen.passed(messages)
        return [message for message in messages if may_match(message) is not False]

    def may_match(self, message: Any) -> bool | None:
        """Whether the record matches, as far as its headers say; None: ask the encoded message."""
        headers = message.headers()
        if not headers:
            return self._plain(({}, message)) if self._plain is not None else None
        if headers[-1][0] == BARE:
            return self._of_ours(headers, message)
        if self._plain is None or self._event is None:
            return None
        found = plain_source(headers, message)
        if found is None:
            return None
        return (self._event if found[1] else self._plain)(found[0])

    def _of_ours(self, headers: list[Any], message: Any) -> bool | None:
        """By what is stored; None: by that or by the other headers, and only the digest says which of them counts."""
        if self._written is None:
            return None
        stored = sections_of(headers[-1][1])
        try:
            if self._written((stored, walk(stored), message)):
                return None
        except AmqpError:
            return None
        if self._plain is None or self._event is None:
            return False
        last = dict(headers)
        return None if (self._event if VERSION in last else self._plain)((last, message)) else False

    def matches(self, data: bytes) -> bool:
        """Whether the message matches as it would be delivered."""
        try:
            return self._whole((data, walk(data)))
        except AmqpError:
            return False
