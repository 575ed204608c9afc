"""Checks whether columns can answer a predicate, when it is compiled (docs/columns.md).

If they cannot, an error says what to do instead: an engine would have to guess.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bridges.spark.columns.schema import DEPTH, ENTRIES_LIMIT, SECTIONS
from gateway.errors import NOT_IMPLEMENTED, AmqpError
from gateway.filters.predicate import (
    FieldReference,
    Latest,
    Like,
    Literal,
    Matches,
    MessageSection,
    Node,
    Predicate,
    number_in,
    walk,
)
from gateway.filters.values import TEXTS, Family, Frozen, frozen

_FIXED: Final = (MessageSection.HEADER, MessageSection.PROPERTIES)


class Needs(NamedTuple):
    """Marks of the column `not_shown` that concern a predicate.

    If one of `sections` is marked, the gateway could not read it either, and the message does not match. If one of
    `entries` is marked, columns lack values that the gateway reads, so there is no answer.
    """

    sections: tuple[str, ...]
    entries: tuple[str, ...]


def check(predicate: Predicate) -> Needs:
    """The marks that concern a predicate. Raises `AmqpError` (amqp:not-implemented) if columns cannot answer it."""
    sections: dict[str, None] = {}
    entries: dict[str, None] = {}
    for node in walk(predicate):
        _refuse(node)
        field = node.field if isinstance(node, Matches) else node
        if not isinstance(field, FieldReference) or field.section not in SECTIONS:
            continue
        column = SECTIONS[field.section]
        sections[column] = None
        nested = field.path or (isinstance(node, Matches) and isinstance(frozen(node.reference), Frozen))
        if nested or field.section in _FIXED:
            entries[f"{column}.*"] = None
    return Needs(tuple(sections), tuple(entries))


def unanswerable(marks: object) -> AmqpError:
    """The error for a row that lacks a value which a predicate reads."""
    return AmqpError(
        NOT_IMPLEMENTED,
        f"a message has values that columns do not show ({marks}): nested deeper than {DEPTH}, more than "
        f"{ENTRIES_LIMIT} nested entries in a section, or fields of a type that is not the specification's; filter "
        f"at the gateway, or say strict=False to leave such messages out",
    )


def _refuse(node: Node) -> None:
    if isinstance(node, Like):
        if not isinstance(node.pattern, Literal) or not isinstance(node.escape, Literal | None):
            raise _unsupported("LIKE over columns needs a constant pattern: compare with = or filter at the gateway")
    elif isinstance(node, FieldReference):
        if number_in(node.name) is not None:
            raise _unsupported("annotations whose keys are numbers are for the gateway: columns show none")
        if any(not isinstance(step, str | Literal) for step in node.path):
            raise _unsupported("an index needs to be a constant here: write out the indexes, or filter at the gateway")
    elif isinstance(node, Literal):
        if isinstance(node.value, Latest):
            raise _unsupported("@latest has no meaning for stored messages: name an offset or a time")
    elif isinstance(node, Matches):
        _refuse_reference(frozen(node.reference))


def _refuse_reference(reference: object) -> None:
    if not isinstance(reference, Frozen):
        return
    if reference.family is Family.DESCRIBED:
        raise _unsupported("a property filter with a described value is for the gateway: columns show none inside")
    items = reference.items
    if reference.family is Family.MAP:
        if any(type(key) not in TEXTS for key, _ in items):
            raise _unsupported("a property filter with a map needs string or symbol keys here")
        items = tuple(item for _, item in items)
    for item in items:
        _refuse_reference(item)


def _unsupported(why: str) -> AmqpError:
    return AmqpError(NOT_IMPLEMENTED, f"filter over columns: {why}")
