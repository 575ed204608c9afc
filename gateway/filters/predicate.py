"""Predicates: the one form to which every filter language compiles and which every back end evaluates (FX 1, FX 2).

A predicate is typed, immutable and three-valued: true, false or unknown; a filter delivers only messages for which it
is true (FX-2-1). Front ends (property filters, SQL, event-stream filters, selectors) build it; `evaluate`, Arrow and
Spark's columns evaluate it; all are independent. `values` defines the meaning of the nodes for values of each
type, and `docs/filters.md` describes it.

Every node is hashable and comparable: equal terms of many filters are one term. Pure data: no behaviour beyond the
walks at the end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, Final, TypeAlias

from gateway.amqp.codec.types import Value


class MessageSection(Enum):
    """The section of a field; there is no `data`, because its content cannot be filtered (FX-2-4)."""

    HEADER = "header"
    DELIVERY_ANNOTATIONS = "delivery-annotations"
    MESSAGE_ANNOTATIONS = "message-annotations"
    PROPERTIES = "properties"
    APPLICATION_PROPERTIES = "application-properties"
    AMQP_VALUE = "amqp-value"
    AMQP_SEQUENCE = "amqp-sequence"
    FOOTER = "footer"


class Latest(Enum):
    """The end of a partition's log when the link was attached: a constant that `bind` replaces (ES-5.1.1-7)."""

    LATEST = "@latest"


class Comparison(Enum):
    """The comparison operators (FX-5-4); `!=` is another spelling of `<>`."""

    EQ = "="
    NE = "<>"
    LT = "<"
    LE = "<="
    GT = ">"
    GE = ">="


class Operator(Enum):
    """The arithmetic operators (FX-5-10)."""

    ADD = "+"
    SUB = "-"
    MUL = "*"
    DIV = "/"
    MOD = "%"


class Affix(Enum):
    """The string modifiers of FX 4: `&p:` and `&P:`, `&s:` and `&S:`, `&i:`."""

    PREFIX = "prefix"
    SUFFIX = "suffix"
    WHOLE = "whole"


# -- values


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant: None, bool, int, Decimal, float, str, bytes, Timestamp, uuid.UUID or `Latest`.

    Only constants of the same type are equal: in Python 1, 1.0 and True are equal, in a filter they are not.
    """

    value: Value

    def __eq__(self, other: object) -> bool:
        return type(other) is Literal and _typed(self.value) == _typed(other.value)

    def __hash__(self) -> int:
        return hash(_typed(self.value))


@dataclass(frozen=True, slots=True)
class FieldReference:
    """A reference: the entry `name` of a section, and what `path` selects inside it (FX-5-18 to -22).

    In the header and the properties `name` is the specification's field name, with hyphens; for an annotation whose key
    is a number it is `numbered(number)`. A step of the path is a `str` (a key: looked up as string, then as symbol) or
    a `ValueExpression` (a zero-based index).
    """

    section: MessageSection
    name: str
    path: tuple[str | ValueExpression, ...] = ()


_NUMBER: Final = "\0"
"""A prefix that no symbol of a specification has."""


def numbered(key: int) -> str:
    """The name in a `FieldReference` for an annotation whose key is a ulong (AMQP 3.2.10)."""
    return f"{_NUMBER}{key:d}"


def number_in(name: str) -> int | None:
    """The ulong of a `numbered` name; None for any other name."""
    return int(name[1:]) if name[:1] == _NUMBER and name[1:].isdecimal() and name.isascii() else None


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`left operator right`; unknown if the result is not a number."""

    operator: Operator
    left: ValueExpression
    right: ValueExpression


@dataclass(frozen=True, slots=True)
class Negative:
    """Unary minus."""

    value: ValueExpression


@dataclass(frozen=True, slots=True)
class Positive:
    """Unary plus: leaves a number unchanged; unknown for anything else (FX-5-10)."""

    value: ValueExpression


ValueExpression = Literal | FieldReference | Arithmetic | Negative | Positive


# -- predicates


@dataclass(frozen=True, slots=True)
class Constant:
    """True, false or unknown (None)."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class Truth:
    """A value used as a condition (FX-5-15): unknown unless it is a boolean."""

    value: ValueExpression


@dataclass(frozen=True, slots=True)
class Compare:
    """SQL comparison: numbers across their families, everything else within its own, unknown otherwise."""

    comparison: Comparison
    left: ValueExpression
    right: ValueExpression


@dataclass(frozen=True, slots=True)
class IsNull:
    """Absent or null (FX-5-5): never unknown."""

    value: ValueExpression


@dataclass(frozen=True, slots=True)
class Exists:
    """Present, even with a null (FX-5-8): never unknown."""

    field: FieldReference


@dataclass(frozen=True, slots=True)
class In:
    """Equal to one of `items` (FX-5-6): a disjunction of comparisons, so unknown in the same cases as in SQL."""

    value: ValueExpression
    items: tuple[ValueExpression, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """`%` matches any string, `_` one character; `escape` makes the next character literal (FX-5-7)."""

    value: ValueExpression
    pattern: ValueExpression
    escape: ValueExpression | None = None
    longest: int | None = None
    """The maximum length of a text; the result for a longer one is unknown (`search_limit`). None: no limit."""


@dataclass(frozen=True, slots=True)
class Matches:
    """A property filter's element (FX-4-5 to FX-4-10): strict about types, never unknown.

    `reference` is a value of the codec, hashable (`values.frozen`), never null: a null reference of a list is no
    element at all (FX-4-6), one of a map is `Exists` (FX-4-19).
    """

    field: FieldReference
    reference: Value

    def __eq__(self, other: object) -> bool:
        return (
            type(other) is Matches and self.field == other.field and _typed(self.reference) == _typed(other.reference)
        )

    def __hash__(self) -> int:
        return hash((self.field, _typed(self.reference)))


@dataclass(frozen=True, slots=True)
class Text:
    """A property filter's element with a modifier (FX-4-11 to -18): false for anything but a string or symbol."""

    field: FieldReference
    affix: Affix
    operand: str
    fold: bool


@dataclass(frozen=True, slots=True)
class And:
    """Three-valued conjunction; true if it has no items."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Three-valued disjunction; false if it has no items."""

    items: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """Three-valued negation."""

    item: Predicate


@dataclass(frozen=True, slots=True)
class IsTrue:
    """True if the operand is true, false if it is false or unknown: a filter in a group (FX-2-1, FX-3.3-1)."""

    item: Predicate


Predicate = Constant | Truth | Compare | IsNull | Exists | In | Like | Matches | Text | And | Or | Not | IsTrue
Node = Predicate | ValueExpression
NodeField: TypeAlias = Any
"""The type of a node's fields: a node, a tuple of nodes, or data. `Any`, because type checkers cannot follow a walk
that rebuilds nodes field by field (`dataclasses.fields`)."""

TRUE: Final = Constant(True)
FALSE: Final = Constant(False)
UNKNOWN: Final = Constant(None)


def _typed(value: object) -> Hashable:
    return (type(value), tuple(map(_typed, value)) if isinstance(value, tuple) else value)


def conjunction(items: tuple[Predicate, ...]) -> Predicate:
    """The conjunction of `items`; a single item is returned without an `And`."""
    return items[0] if len(items) == 1 else And(items)


def children(node: Node) -> Iterator[Node]:
    """The nodes directly below `node`, in order."""
    for field in fields(node):
        value = getattr(node, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, _NODES):
                yield item


def walk(node: Node) -> Iterator[Node]:
    """`node` and everything below it, parents first."""
    stack: list[Node] = [node]
    while stack:
        found = stack.pop()
        yield found
        stack.extend(reversed(list(children(found))))


def fields_of(node: Node) -> tuple[FieldReference, ...]:
    """The fields a predicate names, each once, in the order of their first mention."""
    return tuple(dict.fromkeys(found for found in walk(node) if isinstance(found, FieldReference)))


def bind(predicate: Predicate, latest: str) -> Predicate:
    """The predicate with the end of the log (its offset symbol) instead of every `Latest` (ES-5.1.1-7)."""
    bound: Predicate = _bound(predicate, Literal(latest))
    return bound


def with_longest(predicate: Predicate, longest: Callable[[Like], int | None]) -> Predicate:
    """The predicate with the length limit that `longest` returns for each LIKE."""
    if isinstance(predicate, Like):
        return replace(predicate, longest=longest(predicate))
    if isinstance(predicate, And | Or):
        return replace(predicate, items=tuple(with_longest(item, longest) for item in predicate.items))
    if isinstance(predicate, Not | IsTrue):
        return replace(predicate, item=with_longest(predicate.item, longest))
    return predicate


def _bound(node: NodeField, latest: Literal) -> NodeField:
    if type(node) is tuple:  # not a frozen reference
        return tuple(_bound(item, latest) for item in node)
    if isinstance(node, Literal):
        return latest if node.value is Latest.LATEST else node
    if isinstance(node, _NODES):
        return replace(node, **{field.name: _bound(getattr(node, field.name), latest) for field in fields(node)})
    return node


_NODES: Final = (
    Literal, FieldReference, Arithmetic, Negative, Positive, Constant, Truth, Compare, IsNull, Exists, In, Like,
    Matches, Text, And, Or, Not, IsTrue,
)  # fmt: skip
