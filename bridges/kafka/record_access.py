"""Filters on Kafka records: fields of the message a record will be, read without making it (FX 2-5, KM-13).

A record that the gateway wrote has its encoded sections in `amqp.bare`: they are read there, as of any message. Of a
plain record of somebody else's the headers are the application properties. What is neither, or what a filter asks for
beyond that, is read from the message itself, encoded as it would be delivered. Pure.

`amqp.bare` is believed here, without its digest: that covers the value, and a filter should not cost by the size of
what it skips. What matches is encoded, and asked once more where the digest turns out to be wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from bridges.kafka.annotations import OFFSET, SOURCE_PARTITION, TIMESTAMP, offset_text
from bridges.kafka.bare import BARE, sections_of
from bridges.kafka.cloudevents import HEADER_PREFIX
from bridges.kafka.readable import RESERVED, as_property
from gateway.amqp.codec import Symbol, Timestamp
from gateway.amqp.sections import walk
from gateway.errors import AmqpError
from gateway.filters.access import ABSENT, Access, MessageAccess, Reader
from gateway.filters.closure import compile_filter
from gateway.filters.closure import sections_of as sections_named
from gateway.filters.group import compile_group
from gateway.filters.predicate import Predicate, Section

Written = tuple[bytes, Any, Any]
"""Of a record of ours: its sections, where they are, and the client's message."""
Plain = tuple[dict[str, bytes | None], Any]
"""Of a record of somebody else's: its headers, the last of each name, and the client's message."""
Whole = Callable[[Any], bytes]
"""The message of a record, encoded."""
RENAMED: Final = (RESERVED, HEADER_PREFIX)
"""How headers begin that are not application properties under their own name."""
_MESSAGE: Final = MessageAccess()
_STORED: Final = frozenset(
    {
        Section.HEADER,
        Section.MESSAGE_ANNOTATIONS,
        Section.PROPERTIES,
        Section.APPLICATION_PROPERTIES,
        Section.FOOTER,
        Section.DELIVERY_ANNOTATIONS,
    }
)
_SHOWN: Final = frozenset({Section.APPLICATION_PROPERTIES, Section.DELIVERY_ANNOTATIONS})


def _absent(message: Any) -> Any:
    return ABSENT


_LOG: Final[dict[str, Callable[[Any], Any]]] = {
    OFFSET: lambda message: Symbol(offset_text(message.offset())),
    TIMESTAMP: lambda message: Timestamp(max(0, message.timestamp()[1])),
    SOURCE_PARTITION: lambda message: Symbol(str(message.partition())),
}


def _log(names: tuple[str, ...], place: int) -> Reader[Any]:
    """The delivery annotations of an event, from the client's message at `source[place]` (ES 5.1)."""
    readers = [_LOG.get(name, _absent) for name in names]

    def read(source: Any) -> Sequence[Any]:
        message = source[place]
        return [reader(message) for reader in readers]

    return read


class WrittenAccess(Access[Written]):
    """Records of ours: their stored sections are read like those of a message."""

    def reader(self, section: Section, names: tuple[str, ...]) -> Reader[Written]:
        """See `Access`."""
        if section is Section.DELIVERY_ANNOTATIONS:
            return _log(names, 2)
        return _apart(_MESSAGE.reader(section, names))

    def screen(self, section: Section, needles: tuple[bytes, ...]) -> Callable[[Written], bool] | None:
        """See `Access`."""
        if section is Section.DELIVERY_ANNOTATIONS:
            return None
        test = _MESSAGE.screen(section, needles)
        return None if test is None else lambda source: test(source[:2])


def _apart(read: Reader[Any]) -> Reader[Written]:
    return lambda source: read(source[:2])


class PlainAccess(Access[Plain]):
    """Records of somebody else's: headers as application properties (KM-5)."""

    def reader(self, section: Section, names: tuple[str, ...]) -> Reader[Plain]:
        """See `Access`."""
        if section is Section.DELIVERY_ANNOTATIONS:
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

    def screen(self, section: Section, needles: tuple[bytes, ...]) -> Callable[[Plain], bool] | None:
        """See `Access`; a header that is the text, or holds it."""
        return None


def headers_of_others(headers: list[Any]) -> dict[str, bytes | None] | None:
    """The last header of each name of a plain record; None: some are the gateway's own, or a CloudEvent's."""
    last = dict(headers)
    for name in last:
        if name.startswith(RENAMED):
            return None
    return last


class RecordFilter:
    """One predicate, for all three kinds of records."""

    def __init__(self, predicate: Predicate) -> None:
        self.predicate: Final = predicate
        named = sections_named(predicate)
        self._whole: Final = compile_filter(predicate, _MESSAGE)
        self._written: Final = compile_filter(predicate, WrittenAccess()) if named <= _STORED else None
        self._plain: Final = compile_filter(predicate, PlainAccess()) if named <= _SHOWN else None

    def may_match(self, message: Any) -> bool | None:
        """Whether the record matches, as far as its headers say; None: ask the encoded message."""
        headers = message.headers()
        if not headers:
            return self._plain(({}, message)) if self._plain is not None else None
        if headers[-1][0] == BARE:
            if self._written is None:
                return None
            stored = sections_of(headers[-1][1])
            try:
                return self._written((stored, walk(stored), message))
            except AmqpError:
                return None
        if self._plain is None:
            return None
        last = headers_of_others(headers)
        return None if last is None else self._plain((last, message))

    def matches(self, data: bytes) -> bool:
        """Whether the message matches as it would be delivered."""
        try:
            return self._whole((data, walk(data)))
        except AmqpError:
            return False


class RecordFilters:
    """Many predicates over one stream of records: each record's fields are read once."""

    def __init__(self, filters: Sequence[RecordFilter]) -> None:
        self._filters: Final = filters
        named = [sections_named(each.predicate) for each in filters]
        self._written: Final = _Group(filters, [sections <= _STORED for sections in named], WrittenAccess())
        self._plain: Final = _Group(filters, [sections <= _SHOWN for sections in named], PlainAccess())

    def may_match(self, message: Any) -> tuple[list[int], Sequence[int]]:
        """The numbers of those that match by the headers, and of those whose encoded message has to be asked."""
        headers = message.headers()
        if not headers:
            return self._plain.ask(({}, message))
        if headers[-1][0] == BARE:
            stored = sections_of(headers[-1][1])
            try:
                return self._written.ask((stored, walk(stored), message))
            except AmqpError:
                return [], range(len(self._filters))
        last = headers_of_others(headers)
        return ([], range(len(self._filters))) if last is None else self._plain.ask((last, message))


class _Group:
    """The predicates that one kind of record can answer, as a group, and the numbers of the others."""

    def __init__(self, filters: Sequence[RecordFilter], able: list[bool], access: Access[Any]) -> None:
        self._numbers: Final = [number for number, can in enumerate(able) if can]
        self._others: Final = [number for number, can in enumerate(able) if not can]
        chosen = [filters[number].predicate for number in self._numbers]
        self._matching: Final = compile_group(chosen, access) if chosen else None

    def ask(self, source: Any) -> tuple[list[int], list[int]]:
        if self._matching is None:
            return [], self._others
        return [self._numbers[found] for found in self._matching(source)], self._others
