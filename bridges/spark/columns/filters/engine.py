"""The parts of a column of values, and the operations of a columnar engine (docs/columns.md).

A column of values is one array (or expression) for each kind of value, null in rows whose value is of another kind.
`compiler` evaluates predicates with these operations; Arrow and Spark are the two engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from enum import Enum, auto
from typing import Final, Generic, NamedTuple, Protocol, TypeVar
from uuid import UUID

from gateway.amqp.codec.types import Timestamp, Value
from gateway.filters import like
from gateway.filters.decimals import DIGITS, SCALE, decimal_value
from gateway.filters.predicate import Affix, Comparison, FieldReference, Operator
from gateway.filters.values import INTEGERS, LONG_MAX, LONG_MIN, TEXTS, double

E = TypeVar("E")
E_co = TypeVar("E_co", covariant=True)


class ColumnPart(Enum):
    """Kinds of values. `LONG` is `INTEGER` and `TIME` together, `DEC` is `DECIMAL` and `WIDE`."""

    LONG = auto()
    INTEGER = auto()
    TIME = auto()
    DEC = auto()
    DECIMAL = auto()
    WIDE = auto()
    """Integers that need a decimal: ulongs greater than any long."""
    DOUBLE = auto()
    BOOLEAN = auto()
    TEXT = auto()
    BINARY = auto()
    UUID = auto()
    CHAR = auto()
    WHOLE = auto()
    """A constant that is not a long, exactly as it was written."""


MEMBERS: Final = {
    ColumnPart.LONG: "long", ColumnPart.INTEGER: "long", ColumnPart.TIME: "long",
    ColumnPart.DEC: "decimal", ColumnPart.DECIMAL: "decimal",
    ColumnPart.WIDE: "decimal", ColumnPart.DOUBLE: "double", ColumnPart.BOOLEAN: "boolean",
    ColumnPart.TEXT: "text", ColumnPart.UUID: "uuid",
    ColumnPart.BINARY: "binary", ColumnPart.CHAR: "binary",
}  # fmt: skip
"""The member of a value (`schema.MEMBERS`) that contains a part."""
OF_TYPE: Final = {
    ColumnPart.TIME: ("timestamp", True), ColumnPart.INTEGER: ("timestamp", False), ColumnPart.WIDE: ("ulong", True),
    ColumnPart.DECIMAL: ("ulong", False), ColumnPart.BINARY: ("binary", True), ColumnPart.CHAR: ("char", True),
}  # fmt: skip
"""Parts that share a member with another part: an AMQP type, and whether the part is that type or all others."""


class LikePattern(NamedTuple):
    """A pattern of LIKE: its parts between `%`, and the gateway's own matcher."""

    parts: list[like.LikePart]
    matches: Callable[[str], bool]


class Operand(Protocol[E_co]):
    """A value in parts."""

    def part(self, part: ColumnPart) -> E_co | None:
        """The values of this kind, null in other rows; `None`: there are none."""

    def present(self) -> E_co:
        """Whether it is neither absent nor null: never null."""


class FieldOperand(Operand[E_co], Protocol[E_co]):
    """A field in parts."""

    def exists(self) -> E_co:
        """Whether it exists, even with the value null."""

    def is_a(self, kind: str) -> E_co:
        """Whether it is of the AMQP type of this name: never null."""


class ColumnOperations(Protocol[E]):
    """The operations of a columnar engine. The result is null if an operand is, unless documented otherwise."""

    def field(self, field: FieldReference) -> FieldOperand[E]: ...

    def literal(self, part: ColumnPart, value: Value) -> E: ...

    def constant(self, value: bool | None) -> E: ...

    def compare(self, comparison: Comparison, left: E, right: E) -> E:
        """Compare two parts of one kind without NaN."""

    def every(self, items: Sequence[E]) -> E:
        """Three-valued AND of at least one item."""

    def some(self, items: Sequence[E]) -> E:
        """Three-valued OR of at least one item."""

    def negation(self, item: E) -> E: ...

    def first(self, items: Sequence[E]) -> E:
        """The first item that is not null."""

    def where(self, condition: E, item: E) -> E:
        """`item` in rows where the condition is true, else null."""

    def valid(self, item: E) -> E:
        """Whether it is not null: never null itself."""

    def to_double(self, part: ColumnPart, item: E) -> E:
        """A number as the nearest double."""

    def to_decimal(self, item: E) -> E:
        """A long or a decimal as a decimal."""

    def without_nan(self, item: E) -> E:
        """Doubles, null for NaN."""

    def whole(self, operator: Operator, left: E, right: E) -> E:
        """Arithmetic of longs; null if the result is not a long."""

    def wide(self, operator: Operator, left: E, right: E) -> E:
        """Arithmetic of longs and whole decimals, at least one a decimal; null if the result is not a long."""

    def approximate(self, operator: Operator, left: E, right: E) -> E:
        """Arithmetic of doubles; null for a division by zero and for NaN."""

    def minus(self, item: E) -> E:
        """A double or a decimal, negated."""

    def like(self, text: E, pattern: LikePattern) -> E:
        """Whether a text has the parts in this order, the first at its start and the last at its end."""

    def shorter(self, text: E, longest: int) -> E:
        """Whether a text has at most `longest` characters."""

    def affix(self, text: E, affix: Affix, operand: str, fold: bool) -> E:
        """Whether a text, folded with `fold`, starts with, ends with or equals `operand`."""


class Computed(Generic[E]):
    """A value that was computed from others."""

    def __init__(self, engine: ColumnOperations[E], parts: Mapping[ColumnPart, E | None]) -> None:
        self._engine = engine
        self._parts = {part: item for part, item in parts.items() if item is not None}

    def part(self, part: ColumnPart) -> E | None:
        return self._parts.get(part)

    def present(self) -> E:
        found = [self._engine.valid(item) for item in self._parts.values()]
        return self._engine.some(found) if found else self._engine.constant(False)


BOUND: Final = Decimal(10) ** (DIGITS - SCALE)
_GREATEST: Final = Decimal(f"{'9' * (DIGITS - SCALE)}.{'9' * SCALE}")
_LITERAL: Final[dict[type, tuple[ColumnPart, ...]]] = {
    bool: (ColumnPart.BOOLEAN,),
    float: (ColumnPart.DOUBLE,),
    bytes: (ColumnPart.BINARY,),
    UUID: (ColumnPart.UUID,),
    Timestamp: (ColumnPart.TIME, ColumnPart.LONG),
}


class Constants(Generic[E]):
    """A constant in parts. `beyond`: 1 or -1 for an integer that is greater or less than any in a column, else 0."""

    def __init__(self, engine: ColumnOperations[E], value: Value) -> None:
        self._engine, self._value = engine, value
        self._stored, self._parts = _stored(value)
        outside = type(value) in INTEGERS and abs(value) >= BOUND
        self.beyond: Final = 0 if not outside else 1 if value > 0 else -1

    def part(self, part: ColumnPart) -> E | None:
        return self._engine.literal(part, self._stored) if part in self._parts else None

    def present(self) -> E:
        return self._engine.constant(self._value is not None)

    def as_double(self) -> E:
        return self._engine.literal(ColumnPart.DOUBLE, double(self._value))

    def as_decimal(self) -> E:
        return self._engine.literal(ColumnPart.DEC, Decimal(self._stored))

    def as_whole(self) -> E:
        return self._engine.literal(ColumnPart.WHOLE, Decimal(self._value))


def _stored(value: Value) -> tuple[Value, tuple[ColumnPart, ...]]:
    """A constant as a column would store it, and the parts that have it."""
    if type(value) in INTEGERS:
        if LONG_MIN <= value <= LONG_MAX:
            return int(value), (ColumnPart.INTEGER, ColumnPart.LONG)
        return Decimal(value) if abs(value) < BOUND else _GREATEST.copy_sign(Decimal(value)), (
            ColumnPart.WIDE,
            ColumnPart.DEC,
        )
    if isinstance(value, Decimal):
        number = decimal_value(value)
        return number, (() if number is None else (ColumnPart.DECIMAL, ColumnPart.DEC))
    return value, (ColumnPart.TEXT,) if type(value) in TEXTS else _LITERAL.get(type(value), ())
