"""What the headers of a record must hold for a filter to match: looked for before anything is read (FX 2-2). Pure.

A filter lets through few records of many, and most filters want some application property to be one text. Such a
property is a header of that content, whoever wrote the record, or is in `amqp.bare`; where neither is so, the record
does not match, as it was written or as a tool changed it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bridges.kafka.consume._fetch import Run
from bridges.kafka.records.cloudevents import HEADER_PREFIX, PREFIXES
from bridges.kafka.records.encode import MESSAGE
from bridges.kafka.records.envelope import BARE
from bridges.kafka.records.headers import BODY, RESERVED
from gateway.filters.evaluate.compile import conjuncts
from gateway.filters.index.keys import texts_of
from gateway.filters.predicate import FieldReference, MessageSection, Predicate

_MOST: Final = 4
"""More texts to look for than this cost more than reading the fields."""
_WHOLE_MESSAGE: Final = (BODY, MESSAGE)
_NO_TEXT: Final = "\ufffd"
"""What stands in a header's name for bytes that are no UTF-8."""


class HeaderScreen:
    """A test of a record's headers that none fails whose message matches."""

    def __init__(self, names: list[str], contents: list[bytes]) -> None:
        self._contents: Final = contents
        self._pairs: Final = [(name, content) for name in names for content in contents]
        pairs = tuple((name.encode("utf-8", "surrogatepass"), content) for name, content in self._pairs)
        self._in_c: Final = (pairs, BARE.encode(), RESERVED.encode(), (BODY.encode(), MESSAGE))

    def passed(self, messages: Sequence[Any]) -> Sequence[Any]:
        """Those of a run that may match."""
        if isinstance(messages, Run):
            return messages.screened(*self._in_c)
        may_match = self.may_match
        return [message for message in messages if may_match(message.headers())]

    def may_match(self, headers: list[Any] | None) -> bool:
        """Whether a record with these headers may; `Run.screened` says the same."""
        if not headers:
            return False
        for pair in self._pairs:
            if pair in headers:
                return True
        name, stored = headers[-1]
        if name == BARE:
            return stored is not None and any(content in stored for content in self._contents)
        return name.startswith(RESERVED) or _WHOLE_MESSAGE in headers


def screen(predicate: Predicate) -> HeaderScreen | None:
    """What a predicate's records must pass; None: there is no such test."""
    for term in conjuncts(predicate):
        found = texts_of(term)
        if found is not None and len(found[1]) <= _MOST and _shown(found[0]):
            return _screen(*found)
    return None


def _shown(field: FieldReference) -> bool:
    """Whether the property is always a header of the same content, under its own name or as a CloudEvent's."""
    name = field.name
    if field.section is not MessageSection.APPLICATION_PROPERTIES or name.startswith(RESERVED):
        return False
    return "\0" not in name and _NO_TEXT not in name


def _screen(field: FieldReference, texts: frozenset[str]) -> HeaderScreen:
    names = [field.name]
    if field.name.startswith(PREFIXES):
        names.append(HEADER_PREFIX + field.name[len(PREFIXES[0]) :])
    return HeaderScreen(names, [text.encode("utf-8", "surrogatepass") for text in texts])
