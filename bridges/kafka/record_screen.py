"""What the headers of a record must hold for a filter to match: looked for before anything is read (FX 2-2). Pure.

A filter lets through few records of many, and most filters want some application property to be one text. Such a
property is a header of that content, whoever wrote the record, or is in `amqp.bare`; where neither is so, the record
does not match, as it was written or as a tool changed it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bridges.kafka.bare import BARE
from bridges.kafka.cloudevents import HEADER_PREFIX, PREFIXES
from bridges.kafka.outgoing import MESSAGE
from bridges.kafka.readable import BODY, RESERVED
from gateway.filters.closure import conjuncts
from gateway.filters.group import texts_of
from gateway.filters.predicate import Field, Predicate, Section

Screen = Callable[[list[Any] | None], bool]
_MOST: Final = 4
"""More texts to look for than this cost more than reading the fields."""
_WHOLE_MESSAGE: Final = (BODY, MESSAGE)


def screen(predicate: Predicate) -> Screen | None:
    """A test of a record's headers that none fails whose message matches; None: there is no such test."""
    for term in conjuncts(predicate):
        found = texts_of(term)
        if found is not None and len(found[1]) <= _MOST and _shown(found[0]):
            return _test(*found)
    return None


def _shown(field: Field) -> bool:
    """Whether the property is always a header of the same content, under its own name or as a CloudEvent's."""
    name = field.name
    return field.section is Section.APPLICATION_PROPERTIES and "\0" not in name and not name.startswith(RESERVED)


def _test(field: Field, texts: frozenset[str]) -> Screen:
    names = [field.name]
    if field.name.startswith(PREFIXES):
        names.append(HEADER_PREFIX + field.name[len(PREFIXES[0]) :])
    contents = [text.encode("utf-8", "surrogatepass") for text in texts]
    pairs = [(name, content) for name in names for content in contents]
    if len(pairs) == 1:
        return _one(pairs[0])

    def may_match(headers: list[Any] | None) -> bool:
        if not headers:
            return False
        for pair in pairs:
            if pair in headers:
                return True
        name, stored = headers[-1]
        if name == BARE:
            return stored is not None and any(content in stored for content in contents)
        return name.startswith(RESERVED) or _WHOLE_MESSAGE in headers

    return may_match


def _one(pair: tuple[str, bytes]) -> Screen:
    content = pair[1]

    def may_match(headers: list[Any] | None) -> bool:
        if not headers:
            return False
        if pair in headers:
            return True
        name, stored = headers[-1]
        if name == BARE:
            return stored is not None and content in stored
        return name.startswith(RESERVED) or _WHOLE_MESSAGE in headers

    return may_match
