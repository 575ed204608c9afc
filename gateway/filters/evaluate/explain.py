"""Explains predicates: the text of each term, and its result for a message (`scopegate filter`)."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, NamedTuple

from gateway.amqp.codec.codec import Array, Described, MapKey, Symbol, Timestamp, Value
from gateway.filters.decimals import decoded
from gateway.filters.evaluate.access import ABSENT, Encoded, MessageAccess
from gateway.filters.evaluate.compile import extraction, verdict
from gateway.filters.evaluate.terms import Values, value
from gateway.filters.predicate import (
    Affix,
    And,
    Arithmetic,
    Compare,
    Constant,
    Exists,
    FieldReference,
    In,
    IsNull,
    IsTrue,
    Latest,
    Like,
    Matches,
    MessageSection,
    Negative,
    Node,
    Not,
    Or,
    Positive,
    Predicate,
    Text,
    Truth,
    ValueExpression,
    fields_of,
    number_in,
)
from gateway.filters.values import DECIMALS, INTEGERS, Frozen, family

_SECTIONS: Final = {
    MessageSection.HEADER: "h", MessageSection.DELIVERY_ANNOTATIONS: "d", MessageSection.MESSAGE_ANNOTATIONS: "m",
    MessageSection.PROPERTIES: "p", MessageSection.APPLICATION_PROPERTIES: "a", MessageSection.AMQP_VALUE: "v",
    MessageSection.AMQP_SEQUENCE: "s", MessageSection.FOOTER: "f",
}  # fmt: skip
_LONGEST: Final = 120
_GROUPS: Final = {And: "all of", Or: "any of", Not: "not", IsTrue: "is true"}


class Term(NamedTuple):
    """One node of a predicate for one message: its depth, its text, its result, and the values of its fields."""

    depth: int
    text: str
    verdict: bool | None
    fields: tuple[str, ...]


class Explainer:
    """The result of a predicate for encoded messages, term by term."""

    def __init__(self, predicate: Predicate) -> None:
        slots, self._read = extraction(fields_of(predicate), MessageAccess())
        self._terms: Final = [
            (depth, node, verdict(node, slots), [(field, value(field, slots)) for field in _fields(node)])
            for depth, node in _predicates(predicate)
        ]

    def terms(self, source: Encoded) -> list[Term]:
        """Every term, the whole predicate first; raises `MALFORMED` for a message whose fields cannot be decoded."""
        values: Values = self._read(source)
        return [
            Term(depth, node_text(node), test(values), tuple(_known(field, get(values)) for field, get in fields))
            for depth, node, test, fields in self._terms
        ]


def _predicates(node: Predicate, depth: int = 0) -> Iterator[tuple[int, Predicate]]:
    yield depth, node
    if isinstance(node, And | Or):
        for item in node.items:
            yield from _predicates(item, depth + 1)
    elif isinstance(node, Not | IsTrue):
        yield from _predicates(node.item, depth + 1)


def _fields(node: Predicate) -> tuple[FieldReference, ...]:
    return () if type(node) in _GROUPS else fields_of(node)


def _known(field: FieldReference, found: Value) -> str:
    return f"{node_text(field)} is {described(found)}"


# -- predicates and values


def node_text(node: Node) -> str:
    """A predicate in the syntax of the SQL filter; for a group only its name, because its items follow."""
    text = _text_of(node)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _text_of(node: Node) -> str:
    match node:
        case Compare(comparison, left, right):
            return f"{_text_of(left)} {comparison.value} {_text_of(right)}"
        case In(of, items):
            return f"{_text_of(of)} IN ({', '.join(map(_text_of, items))})"
        case Like(of, pattern, escape):
            return f"{_text_of(of)} LIKE {_text_of(pattern)}{'' if escape is None else f' ESCAPE {_text_of(escape)}'}"
        case IsNull(of):
            return f"{_text_of(of)} IS NULL"
        case Exists(of):
            return f"EXISTS({_text_of(of)})"
        case Truth(of):
            return _text_of(of)
        case Matches(of, reference):
            return f"{_text_of(of)} matches {described(reference)}"
        case Text():
            return _text(node)
        case Constant(constant):
            return {True: "TRUE", False: "FALSE", None: "unknown"}[constant]
        case And() | Or() | Not() | IsTrue():
            return _GROUPS[type(node)]
        case _:
            return _value(node)


def _text(node: Text) -> str:
    how = {Affix.PREFIX: "begins with", Affix.SUFFIX: "ends with", Affix.WHOLE: "is"}[node.affix]
    return f"{_text_of(node.field)} {how} '{node.operand}'{', ignoring case' if node.fold else ''}"


def _value(node: ValueExpression) -> str:
    match node:
        case Arithmetic(operator, left, right):
            return f"({_text_of(left)} {operator.value} {_text_of(right)})"
        case Negative(of):
            return f"-{_text_of(of)}"
        case Positive(of):
            return f"+{_text_of(of)}"
        case FieldReference(section, name, path):
            if (number := number_in(name)) is not None:
                return f"{_SECTIONS[section]}.[{number}]"  # SQL has no name for it; only a property filter has
            first = f".{name}" if section is MessageSection.DELIVERY_ANNOTATIONS and _hyphens(name) else _step(name)
            return _SECTIONS[section] + first + "".join(map(_step, path))
        case _:
            return literal(node.value)


def _hyphens(name: str) -> bool:
    """Whether a name needs no brackets where hyphens belong to names."""
    return name.replace("-", "").isidentifier() and name[0].isalpha()


def _step(step: str | ValueExpression) -> str:
    if isinstance(step, str):
        plain = step.isidentifier() and not step.startswith("_")
        name = step if plain else "[" + step.replace("[", "[[").replace("]", "]]") + "]"
        return f".{name}"
    return f"[{_text_of(step)}]"


def literal(constant: Value) -> str:
    """A constant as it is written in an expression."""
    if isinstance(constant, bool) or constant is None:
        return {True: "TRUE", False: "FALSE", None: "NULL"}[constant]
    if constant is Latest.LATEST:
        return "'@latest'"
    if isinstance(constant, str):
        quoted = constant.replace("'", "''")
        return f"'{quoted}'"
    if isinstance(constant, Decimal):
        text = f"{constant:f}"
        return text if "." in text else f"{text}.0"
    if isinstance(constant, float):
        return str(constant) if "e" in str(constant) or not math.isfinite(constant) else f"{constant}E0"
    return str(constant)


def described(found: Value) -> str:
    """A message's value with its AMQP type, for people: `'red' (string)`, `7 (integer)`, `absent`."""
    if found is ABSENT or found is None:
        return "absent" if found is ABSENT else "null"
    text, kind = _plain(found), _kind(found)
    return f"{text if len(text) <= _LONGEST else text[:_LONGEST] + '…'} ({kind})"


def _plain(found: Value) -> str:
    if type(found) in DECIMALS and not isinstance(found, Decimal):
        number = decoded(found)
        return "not a finite number" if number is None else str(number)
    if isinstance(found, bytes):
        return f"0x{found.hex()}"
    if isinstance(found, Frozen | Array):
        return f"[{', '.join(map(_plain, found.items))}]"
    if isinstance(found, float):
        return str(found)
    if isinstance(found, MapKey):
        return _plain(found.value)
    if isinstance(found, Described):
        return f"{_plain(found.descriptor)}: {_plain(found.value)}"
    if isinstance(found, list | tuple):
        return f"[{', '.join(map(_plain, found))}]"
    if isinstance(found, dict):
        return "{" + ", ".join(f"{_plain(key)}: {_plain(item)}" for key, item in found.items()) + "}"
    return literal(found)


_NAMES: Final[dict[type, str]] = {
    bool: "boolean", float: "double", str: "string", bytes: "binary", list: "list", dict: "map",
    Symbol: "symbol", Timestamp: "timestamp", uuid.UUID: "uuid",
}  # fmt: skip


def _kind(found: Value) -> str:
    if isinstance(found, Frozen) or type(found) in INTEGERS:
        kind = family(found)
        return "" if kind is None else kind.value
    return _NAMES.get(type(found), type(found).__name__.lower())
