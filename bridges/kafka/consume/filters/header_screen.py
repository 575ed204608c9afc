"""A cheap test of a record's headers before a filter reads any field (FX 2-2). Pure.

Most filters match few records and require an application property to equal a text. Such a property is either a header
with that content, whoever wrote the record, or it is in `amqp.bare` behind the other headers, where the gateway writes
it. If neither is so, the record does not match, neither as it was written nor as a tool has changed it. A record with
`amqp.bare` elsewhere passes, and so does one whose value may be a whole message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridges.kafka.consume._fetch import Run
from bridges.kafka.consume.filters.access import WHOLE
from bridges.kafka.records.cloudevents import HEADER_PREFIX, PREFIXES
from bridges.kafka.records.envelope import BARE, Header
from bridges.kafka.records.headers import RESERVED
from bridges.kafka.records.record import KafkaRecord
from gateway.filters.evaluate.compile import conjuncts
from gateway.filters.index.keys import texts_of
from gateway.filters.predicate import FieldReference, MessageSection, Predicate

_MAX_TEXTS: Final = 4
"""Searching for more texts than this costs more than reading the fields."""
_WHOLE_IN_C: Final = WHOLE[0].encode(), WHOLE[1]
_NO_TEXT: Final = "\ufffd"
"""Stands for bytes of a header's name that are not UTF-8."""


class HeaderScreen:
    """A test of a record's headers that every record with a matching message passes."""

    def __init__(self, names: list[str], contents: list[bytes]) -> None:
        self._contents: Final = contents
        self._pairs: Final = [(name, content) for name in names for content in contents]
        pairs = tuple((name.encode("utf-8", "surrogatepass"), content) for name, content in self._pairs)
        self._in_c: Final = (pairs, BARE.encode(), RESERVED.encode(), _WHOLE_IN_C)

    def passed(self, records: Sequence[KafkaRecord]) -> Sequence[KafkaRecord]:
        """The records of a run that may match."""
        if isinstance(records, Run):
            return records.screened(*self._in_c)
        may_match = self.may_match
        return [record for record in records if may_match(record.headers())]

    def may_match(self, headers: list[Header] | None) -> bool:
        """Whether a record with these headers may match; `Run.screened` is the same in C."""
        if not headers:
            return False
        for pair in self._pairs:
            if pair in headers:
                return True
        if WHOLE in headers or BARE in dict(headers[:-1]):
            return True
        name, stored = headers[-1]
        if name == BARE:
            return stored is not None and any(content in stored for content in self._contents)
        return name.startswith(RESERVED)


def screen(predicate: Predicate) -> HeaderScreen | None:
    """The test for a predicate; None: it requires no such property."""
    for term in conjuncts(predicate):
        found = texts_of(term)
        if found is not None and len(found[1]) <= _MAX_TEXTS and _is_header(found[0]):
            return _screen(*found)
    return None


def _is_header(field: FieldReference) -> bool:
    """Whether the property is always a header with the same content, under its own name or that of a CloudEvent."""
    name = field.name
    if field.section is not MessageSection.APPLICATION_PROPERTIES or name.startswith(RESERVED):
        return False
    return "\0" not in name and _NO_TEXT not in name


def _screen(field: FieldReference, texts: frozenset[str]) -> HeaderScreen:
    names = [field.name]
    if field.name.startswith(PREFIXES):
        names.append(HEADER_PREFIX + field.name[len(PREFIXES[0]) :])
    return HeaderScreen(names, [text.encode("utf-8", "surrogatepass") for text in texts])
