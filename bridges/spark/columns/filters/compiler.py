"""Evaluates a predicate over whole columns with the operations of a columnar engine (`engine.ColumnOperations`).

Two values are compared part by part: one pair of parts for each rule of docs/filters.md. At most one of these results
is not null; if all are null, the result is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any, Final, Generic

from bridges.spark.columns.filters.engine import (
    BOUND,
    ColumnOperations,
    ColumnPart,
    Computed,
    Constants,
    E,
    LikePattern,
    Operand,
)
from gateway.amqp.codec.types import Char, Value
from gateway.filters import like
from gateway.filters.decimals import decimal_value
from gateway.filters.predicate import (
    FALSE,
    And,
    Compare,
    Comparison,
    Constant,
    Exists,
    FieldReference,
    In,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Matches,
    MessageSection,
    Negative,
    Not,
    Operator,
    Or,
    Positive,
    Predicate,
    Text,
    Truth,
    ValueExpression,
)
from gateway.filters.values import (
    LONG_MAX,
    LONG_MIN,
    TEXTS,
    Family,
    Frozen,
    calculator,
    comparer,
    family,
    folded,
    frozen,
)

_SAME, _DOUBLE, _DECIMAL = "same", "double", "decimal"
"""The type to which both parts of a pair are converted before they are compared."""


def _integral(operand: Operand[E], item: E) -> E:
    if isinstance(operand, Constants):
        constant: E = operand.as_whole()
        return constant
    return item


_PAIRS: Final[tuple[tuple[ColumnPart, ColumnPart, str], ...]] = (
    (ColumnPart.LONG, ColumnPart.LONG, _SAME),
    (ColumnPart.TEXT, ColumnPart.TEXT, _SAME),
    (ColumnPart.BINARY, ColumnPart.BINARY, _SAME),
    (ColumnPart.DOUBLE, ColumnPart.DOUBLE, _DOUBLE),
    (ColumnPart.DOUBLE, ColumnPart.INTEGER, _DOUBLE),
    (ColumnPart.INTEGER, ColumnPart.DOUBLE, _DOUBLE),
    (ColumnPart.DOUBLE, ColumnPart.DEC, _DOUBLE),
    (ColumnPart.DEC, ColumnPart.DOUBLE, _DOUBLE),
    (ColumnPart.DEC, ColumnPart.DEC, _DECIMAL),
    (ColumnPart.INTEGER, ColumnPart.DEC, _DECIMAL),
    (ColumnPart.DEC, ColumnPart.INTEGER, _DECIMAL),
    (ColumnPart.TIME, ColumnPart.WIDE, _DECIMAL),
    (ColumnPart.WIDE, ColumnPart.TIME, _DECIMAL),
)
_EQUAL_PAIRS: Final = (
    *_PAIRS,
    (ColumnPart.BOOLEAN, ColumnPart.BOOLEAN, _SAME),
    (ColumnPart.UUID, ColumnPart.UUID, _SAME),
)
_EQUALITY: Final = (Comparison.EQ, Comparison.NE)
_MIRRORED: Final = {
    Comparison.EQ: Comparison.EQ,
    Comparison.NE: Comparison.NE,
    Comparison.LT: Comparison.GT,
    Comparison.LE: Comparison.GE,
    Comparison.GT: Comparison.LT,
    Comparison.GE: Comparison.LE,
}
_BEYOND: Final = {
    1: {Comparison.LT: Comparison.LE, Comparison.LE: Comparison.LE, Comparison.NE: Comparison.LE},
    -1: {Comparison.GT: Comparison.GE, Comparison.GE: Comparison.GE, Comparison.NE: Comparison.GE},
}
"""The comparison with the greatest (least) decimal for a constant greater (less) than that, if it may be true."""
_NEVER: Final = {1: Comparison.GT, -1: Comparison.LT}


def _applied(comparison: Comparison, beyond: int) -> Comparison:
    return _BEYOND[beyond].get(comparison, _NEVER[beyond]) if beyond else comparison


_SCALARS: Final = {
    Family.BOOLEAN: ColumnPart.BOOLEAN,
    Family.TEXT: ColumnPart.TEXT,
    Family.BINARY: ColumnPart.BINARY,
    Family.TIME: ColumnPart.TIME,
    Family.UUID: ColumnPart.UUID,
    Family.CHAR: ColumnPart.CHAR,
    Family.APPROXIMATE: ColumnPart.DOUBLE,
    Family.DECIMAL: ColumnPart.DECIMAL,
}


class ColumnCompiler(Generic[E]):
    """Evaluates predicates with one engine. They must have passed `check.check`."""

    def __init__(self, engine: ColumnOperations[E]) -> None:
        self.engine: Final = engine
        # Any: each function takes the node type of its key, which a dict cannot express
        self._nodes: Final[dict[type, Callable[[Any], E]]] = {
            Constant: lambda node: engine.constant(node.value),
            And: lambda node: self._all(node.items),
            Or: lambda node: self._any(node.items),
            Not: lambda node: engine.negation(self.truth(node.item)),
            IsTrue: lambda node: self._known(self.truth(node.item)),
            Truth: lambda node: self._or_unknown(self._operand(node.value).part(ColumnPart.BOOLEAN)),
            Compare: lambda node: self._compare(node.comparison, node.left, node.right),
            In: lambda node: self._any(tuple(Compare(Comparison.EQ, node.value, item) for item in node.items)),
            IsNull: lambda node: engine.negation(self._operand(node.value).present()),
            Exists: lambda node: engine.field(node.field).exists(),
            Like: self._like,
            Text: self._text,
            Matches: lambda node: self._matches(node.field, frozen(node.reference)),
        }

    def truth(self, node: Predicate) -> E:
        """True, false, or null for unknown."""
        answer: E = self._nodes[type(node)](node)
        return answer

    def _all(self, items: Sequence[Predicate]) -> E:
        return self.engine.every([self.truth(item) for item in items]) if items else self.engine.constant(True)

    def _any(self, items: Sequence[Predicate]) -> E:
        return self.engine.some([self.truth(item) for item in items]) if items else self.engine.constant(False)

    def _known(self, item: E) -> E:
        return self.engine.first([item, self.engine.constant(False)])

    def _or_unknown(self, item: E | None) -> E:
        return self.engine.constant(None) if item is None else item

    def _first(self, items: Sequence[E | None]) -> E | None:
        found: list[E] = [item for item in items if item is not None]
        return None if not found else found[0] if len(found) == 1 else self.engine.first(found)

    # -- values

    def _as(self, kind: str, operand: Operand[E], part: ColumnPart, item: E) -> E:
        """A part converted for the comparison of a pair: both sides doubles, or both decimals."""
        if kind is _SAME:
            return item
        if isinstance(operand, Constants):
            constant: E = operand.as_double() if kind is _DOUBLE else operand.as_decimal()
            return constant
        if kind is _DECIMAL:
            return self.engine.to_decimal(item)  # decimals stay as they are
        return self.engine.without_nan(item) if part is ColumnPart.DOUBLE else self.engine.to_double(part, item)

    def _operand(self, node: ValueExpression) -> Operand[E]:
        if isinstance(node, FieldReference):
            return self.engine.field(node)
        if isinstance(node, Literal):
            return Constants(self.engine, node.value)
        if isinstance(node, Negative):
            return self._negative(self._operand(node.value))
        if isinstance(node, Positive):
            return self._positive(self._operand(node.value))
        if isinstance(node.left, Literal) and isinstance(node.right, Literal):
            return Constants(self.engine, calculator(node.operator)(node.left.value, node.right.value))
        return self._arithmetic(node.operator, self._operand(node.left), self._operand(node.right))

    def _negative(self, operand: Operand[E]) -> Operand[E]:
        whole = self._whole(Operator.SUB, Constants(self.engine, 0), operand)
        approximate, exact = operand.part(ColumnPart.DOUBLE), operand.part(ColumnPart.DECIMAL)
        negated = None if exact is None else self.engine.minus(exact)
        parts = {
            ColumnPart.INTEGER: whole,
            ColumnPart.LONG: whole,
            ColumnPart.DECIMAL: negated,
            ColumnPart.DEC: negated,
        }
        return Computed(
            self.engine, {**parts, ColumnPart.DOUBLE: None if approximate is None else self.engine.minus(approximate)}
        )

    def _positive(self, operand: Operand[E]) -> Operand[E]:
        """The parts that are numbers, which timestamps are not (docs/filters.md, rule 2)."""
        whole = operand.part(ColumnPart.INTEGER)
        others = (ColumnPart.WIDE, ColumnPart.DECIMAL, ColumnPart.DEC, ColumnPart.DOUBLE)
        parts = {ColumnPart.INTEGER: whole, ColumnPart.LONG: whole, **{part: operand.part(part) for part in others}}
        return Computed(self.engine, parts)

    def _arithmetic(self, operator: Operator, left: Operand[E], right: Operand[E]) -> Operand[E]:
        whole = self._whole(operator, left, right)
        approximate = self._approximate(operator, left, right)
        return Computed(
            self.engine, {ColumnPart.INTEGER: whole, ColumnPart.LONG: whole, ColumnPart.DOUBLE: approximate}
        )

    def _whole(self, operator: Operator, left: Operand[E], right: Operand[E]) -> E | None:
        """Integers with integers: as longs, or as decimals if one is wide.

        A computed operand is used once, otherwise an expression would double with every level of nesting.
        """
        if isinstance(left, Computed) or isinstance(right, Computed):
            return self._exactly(operator, left, right)
        found: list[E | None] = []
        for one, other in ((ColumnPart.INTEGER, ColumnPart.INTEGER), *_WIDE_PAIRS):
            first, second = left.part(one), right.part(other)
            if first is None or second is None:
                continue
            if one is other is ColumnPart.INTEGER:
                found.append(self.engine.whole(operator, first, second))
            else:
                items = _integral(left, first), _integral(right, second)
                found.append(self.engine.wide(operator, *items))
        return self._first(found)

    def _exactly(self, operator: Operator, left: Operand[E], right: Operand[E]) -> E | None:
        wide = any(operand.part(ColumnPart.WIDE) is not None for operand in (left, right))
        first, second = (
            self._exact(operand) if wide else operand.part(ColumnPart.INTEGER) for operand in (left, right)
        )
        if first is None or second is None:
            return None
        return self.engine.wide(operator, first, second) if wide else self.engine.whole(operator, first, second)

    def _exact(self, operand: Operand[E]) -> E | None:
        """Any integer, as a decimal."""
        whole, wide = operand.part(ColumnPart.INTEGER), operand.part(ColumnPart.WIDE)
        if isinstance(operand, Constants):
            return None if whole is None and wide is None else operand.as_whole()
        return self._first([None if whole is None else self.engine.to_decimal(whole), wide])

    def _approximate(self, operator: Operator, left: Operand[E], right: Operand[E]) -> E | None:
        """Numbers of which at least one is not an integer, as doubles."""
        fractions = [
            operand.part(part) for operand in (left, right) for part in (ColumnPart.DOUBLE, ColumnPart.DECIMAL)
        ]
        first, second = self._number(left), self._number(right)
        if first is None or second is None or all(item is None for item in fractions):
            return None
        result = self.engine.approximate(operator, first, second)
        integers = [
            self._first([operand.part(ColumnPart.INTEGER), operand.part(ColumnPart.WIDE)]) for operand in (left, right)
        ]
        if any(item is None for item in integers):
            return result
        both = self.engine.every([self.engine.valid(item) for item in integers if item is not None])
        return self.engine.where(self.engine.negation(both), result)

    def _number(self, operand: Operand[E]) -> E | None:
        """Any number, as a double."""
        parts = ((part, operand.part(part)) for part in (ColumnPart.DOUBLE, ColumnPart.INTEGER, ColumnPart.DEC))
        return self._first([self._as(_DOUBLE, operand, part, item) for part, item in parts if item is not None])

    # -- terms

    def _compare(self, comparison: Comparison, left: ValueExpression, right: ValueExpression) -> E:
        if isinstance(left, Literal):
            if isinstance(right, Literal):
                return self.engine.constant(comparer(comparison)(left.value, right.value))
            left, right, comparison = right, left, _MIRRORED[comparison]
        one, other = self._operand(left), self._operand(right)
        beyond = other.beyond if isinstance(other, Constants) else 0
        pairs = _EQUAL_PAIRS if comparison in _EQUALITY else _PAIRS
        found: list[E | None] = []
        for first, second, kind in pairs:
            against = other.part(second)  # first, because a constant has few parts, and those of a field cost time
            item = None if against is None else one.part(first)
            if against is not None and item is not None:
                applied = _applied(comparison, beyond) if kind is _DECIMAL else comparison
                sides = self._as(kind, one, first, item), self._as(kind, other, second, against)
                found.append(self.engine.compare(applied, *sides))
        return self._or_unknown(self._first(found))

    def _like(self, node: Like) -> E:
        assert isinstance(node.pattern, Literal)
        pattern, escape = node.pattern.value, None
        if isinstance(node.escape, Literal):
            escape = node.escape.value
            if type(escape) not in TEXTS or len(escape) != 1:
                return self.engine.constant(None)
        cut = like.parts(pattern, escape) if type(pattern) in TEXTS else None
        matches = like.compiled(pattern, escape) if cut is not None else None
        text = self._operand(node.value).part(ColumnPart.TEXT)
        if cut is None or matches is None or text is None:
            return self.engine.constant(None)
        found = self.engine.like(text, LikePattern(cut, matches))
        return found if node.longest is None else self.engine.where(self.engine.shorter(text, node.longest), found)

    def _text(self, node: Text) -> E:
        text = self.engine.field(node.field).part(ColumnPart.TEXT)
        if text is None:
            return self.engine.constant(False)
        operand = folded(node.operand) if node.fold else node.operand
        return self._known(self.engine.affix(text, node.affix, operand, node.fold))

    # -- property filters

    def _matches(self, field: FieldReference, reference: Value) -> E:
        if isinstance(reference, Frozen):
            return self._composite(field, reference)
        part, value = _strict(reference)
        item = None if part is None else self.engine.field(field).part(part)
        if part is None or item is None:
            return self.truth(FALSE)
        return self._known(self.engine.compare(Comparison.EQ, item, self.engine.literal(part, value)))

    def _composite(self, field: FieldReference, reference: Frozen) -> E:
        """FX-4-19, FX-4-20: compare each entry of the reference with the entry of the same path below the field."""
        if field.section in (MessageSection.HEADER, MessageSection.PROPERTIES):
            return self.truth(FALSE)
        pairs = reference.items if reference.family is Family.MAP else enumerate(reference.items)
        found = [self.engine.field(field).is_a(reference.family.value)]
        for key, item in pairs:
            below = FieldReference(
                field.section, field.name, (*field.path, key if isinstance(key, str) else Literal(key))
            )
            found.append(self.engine.field(below).exists() if item is None else self._matches(below, item))
        return self.engine.every(found)


_WIDE_PAIRS: Final = (
    (ColumnPart.INTEGER, ColumnPart.WIDE),
    (ColumnPart.WIDE, ColumnPart.INTEGER),
    (ColumnPart.WIDE, ColumnPart.WIDE),
)


def _strict(reference: Value) -> tuple[ColumnPart | None, Value]:
    """The part that may have this value, and the value in that part; `None`: no value equals it."""
    kind = family(reference)
    if kind is Family.INTEGER:
        if LONG_MIN <= reference <= LONG_MAX:
            return ColumnPart.INTEGER, int(reference)
        return (ColumnPart.WIDE, Decimal(reference)) if abs(reference) < BOUND else (None, None)
    if kind is None or reference != reference:
        return None, None
    value = decimal_value(reference) if kind is Family.DECIMAL else reference
    return (None, None) if value is None else (_SCALARS[kind], str(value) if type(value) is Char else value)
