"""Predicates as Spark Columns over the layout of `bridges.spark.columns.schema` (docs/columns.md), without Python.

`column(predicate)` refuses predicates that columns cannot answer and returns a boolean Column that is never null;
`verdict` returns one that is null for unknown. Overflows, divisions by zero and missing entries are null
whatever the value of `spark.sql.ansi.enabled`: only operations that cannot fail are used. Each operand of a nested term
occurs once, since otherwise the plan of the query would double with every level.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, reduce
from typing import Final
from uuid import UUID

from pyspark.sql import Column
from pyspark.sql import functions as F

from bridges.spark import like
from bridges.spark.columns import schema
from bridges.spark.columns.filters import check
from bridges.spark.columns.filters.compiler import ColumnCompiler
from bridges.spark.columns.filters.engine import MEMBERS, OF_TYPE, ColumnPart, LikePattern
from gateway.amqp.codec.codec import Char, encode
from gateway.amqp.codec.types import Value
from gateway.filters.predicate import Affix, Comparison, FieldReference, MessageSection, Operator, Predicate
from gateway.filters.values import folded


def column(predicate: Predicate, *, strict: bool = True) -> Column:
    """Whether a row matches, for `where`: true or false.

    Raises `AmqpError` (amqp:not-implemented) for a predicate that columns cannot answer. With `strict`, a row whose
    columns lack a value that the predicate reads fails the query; without, such a row does not match.
    """
    needs = check.check(predicate)
    answer = F.coalesce(verdict(predicate), F.lit(False))
    if not needs.sections:
        return answer
    hidden, unreadable = _marked(needs.entries), _marked(needs.sections)
    refused = F.raise_error(check.unanswerable("see not_shown").description).cast("boolean")
    return F.when(hidden, refused if strict else F.lit(False)).when(unreadable, F.lit(False)).otherwise(answer)


def verdict(predicate: Predicate) -> Column:
    """The three-valued result of the predicate, null for unknown; marks in `not_shown` are ignored."""
    check.check(predicate)
    return ColumnCompiler(_SparkOperations()).truth(predicate)


def _marked(marks: Sequence[str]) -> Column:
    if not marks:
        return F.lit(False)
    wanted = F.array(*map(F.lit, marks)).cast("array<string>")
    return F.coalesce(F.arrays_overlap(F.col("not_shown"), wanted), F.lit(False))


_PLAIN_PARTS: Final = {
    "boolean": (ColumnPart.BOOLEAN,),
    "int": (ColumnPart.INTEGER, ColumnPart.LONG),
    "bigint": (ColumnPart.INTEGER, ColumnPart.LONG),
    "string": (ColumnPart.TEXT,),
    "binary": (ColumnPart.BINARY,),
}


class _Absent:
    def part(self, part: ColumnPart) -> Column | None:
        return None

    def present(self) -> Column:
        return F.lit(False)

    exists = present

    def is_a(self, kind: str) -> Column:
        return F.lit(False)


class _FoundField:
    """A value struct, null where the field is absent."""

    def __init__(self, value: Column) -> None:
        self._value = value

    def part(self, part: ColumnPart) -> Column | None:
        member = self._value.getField(MEMBERS[part])
        if part not in OF_TYPE:
            return member
        kind, wanted = OF_TYPE[part]
        type_is = self._value.getField("type")
        return F.when(type_is == kind if wanted else type_is != kind, member)

    def exists(self) -> Column:
        return self._value.isNotNull()

    def present(self) -> Column:
        return F.coalesce(self._value.getField("type") != "null", F.lit(False))

    def is_a(self, kind: str) -> Column:
        return F.coalesce(self._value.getField("type") == kind, F.lit(False))


class _Plain:
    """A field of the header or the properties, whose values have one type."""

    def __init__(self, value: Column, parts: tuple[ColumnPart, ...]) -> None:
        self._value, self._parts = value, parts

    def part(self, part: ColumnPart) -> Column | None:
        return self._value if part in self._parts else None

    def present(self) -> Column:
        return self._value.isNotNull()

    exists = present

    def is_a(self, kind: str) -> Column:
        return F.lit(False)


def _field(field: FieldReference) -> _Absent | _FoundField | _Plain:
    path = schema.steps(field)
    if path is None or field.section not in schema.SECTIONS:
        return _Absent()
    section = F.col(schema.SECTIONS[field.section])
    if field.section is MessageSection.HEADER:
        return _Absent() if path else _fixed(section, field.name, schema.HEADER)
    if field.section is MessageSection.PROPERTIES:
        return _Absent() if path else _fixed(section, field.name, schema.PROPERTIES)
    key = schema.entry(field.section, field.name, path)
    return _FoundField(F.try_element_at(section, F.lit(key)))


def _fixed(section: Column, name: str, fields: dict[str, str]) -> _Absent | _FoundField | _Plain:
    member = schema.member(name, fields)
    if not member:
        return _Absent()
    value, kind = section.getField(member), fields[member]
    if kind == schema.VALUE:
        return _FoundField(value)
    if fields is schema.HEADER and member in schema.DEFAULTS:
        value = F.coalesce(value, F.lit(schema.DEFAULTS[member]))
    if member in schema.TIMES:
        return _Plain(value, (ColumnPart.TIME, ColumnPart.LONG))
    return _Plain(value.cast("bigint") if kind == "int" else value, _PLAIN_PARTS[kind])


_EXACT: Final = "decimal(38,18)"
_LITERALS: Final[dict[ColumnPart, tuple[str, Callable[[Value], bool | int | float | str | bytes]]]] = {
    ColumnPart.LONG: ("bigint", int),
    ColumnPart.INTEGER: ("bigint", int),
    ColumnPart.TIME: ("bigint", int),
    ColumnPart.DEC: (_EXACT, str),
    ColumnPart.DECIMAL: (_EXACT, str),
    ColumnPart.WIDE: (_EXACT, str),
    ColumnPart.WHOLE: ("decimal(38,0)", str),
    ColumnPart.DOUBLE: ("double", float),
    ColumnPart.BOOLEAN: ("boolean", bool),
    ColumnPart.TEXT: ("string", str),
    ColumnPart.UUID: ("string", lambda value: str(UUID(int=value.int))),
    ColumnPart.BINARY: ("binary", bytes),
    ColumnPart.CHAR: ("binary", lambda value: encode(Char(value))),
}
_COMPARE: Final[dict[Comparison, Callable[[Column, Column], Column]]] = {
    Comparison.EQ: lambda left, right: left == right,
    Comparison.NE: lambda left, right: left != right,
    Comparison.LT: lambda left, right: left < right,
    Comparison.LE: lambda left, right: left <= right,
    Comparison.GT: lambda left, right: left > right,
    Comparison.GE: lambda left, right: left >= right,
}
_TRY: Final[dict[Operator, Callable[[Column, Column], Column]]] = {
    Operator.ADD: F.try_add,
    Operator.SUB: F.try_subtract,
    Operator.MUL: F.try_multiply,
    Operator.MOD: F.try_mod,
}
_DOUBLES: Final[dict[Operator, Callable[[Column, Column], Column]]] = {
    Operator.ADD: lambda left, right: left + right,
    Operator.SUB: lambda left, right: left - right,
    Operator.MUL: lambda left, right: left * right,
    Operator.DIV: F.try_divide,
    Operator.MOD: F.try_mod,
}


def _quotient(one: Column, other: Column) -> Column:
    """The exact quotient of whole decimals, rounded towards zero: the dividend less the remainder, divided.

    An array of one struct binds both operands to names, so that the plan does not double with every nested division.
    """
    sides = F.array(F.struct(one.alias("one"), other.alias("other")))

    def divided(pair: Column) -> Column:
        left, right = pair.getField("one"), pair.getField("other")
        return F.try_divide(F.try_subtract(left, F.try_mod(left, right)), right)

    return F.element_at(F.transform(sides, divided), 1)


class _SparkOperations:
    """`ColumnOperations` with Spark Columns."""

    def field(self, field: FieldReference) -> _Absent | _FoundField | _Plain:
        return _field(field)

    def literal(self, part: ColumnPart, value: Value) -> Column:
        kind, convert = _LITERALS[part]
        return F.lit(None if value is None else convert(value)).cast(kind)

    def constant(self, value: bool | None) -> Column:
        return F.lit(value).cast("boolean")

    def compare(self, comparison: Comparison, left: Column, right: Column) -> Column:
        return _COMPARE[comparison](left, right)

    def every(self, items: Sequence[Column]) -> Column:
        return reduce(lambda left, right: left & right, items)

    def some(self, items: Sequence[Column]) -> Column:
        return reduce(lambda left, right: left | right, items)

    def negation(self, item: Column) -> Column:
        return ~item

    def first(self, items: Sequence[Column]) -> Column:
        return F.coalesce(*items)

    def where(self, condition: Column, item: Column) -> Column:
        return F.when(condition, item)

    def valid(self, item: Column) -> Column:
        return item.isNotNull()

    def to_double(self, part: ColumnPart, item: Column) -> Column:
        return item.cast("double")

    def to_decimal(self, item: Column) -> Column:
        return item.cast(_EXACT)

    def without_nan(self, item: Column) -> Column:
        return F.nanvl(item, F.lit(None).cast("double"))

    def whole(self, operator: Operator, left: Column, right: Column) -> Column:
        return self.wide(operator, left, right) if operator is Operator.DIV else _TRY[operator](left, right)

    def wide(self, operator: Operator, left: Column, right: Column) -> Column:
        one, other = left.cast("decimal(38,0)"), right.cast("decimal(38,0)")
        result = _quotient(one, other) if operator is Operator.DIV else _TRY[operator](one, other)
        return result.try_cast("bigint")

    def approximate(self, operator: Operator, left: Column, right: Column) -> Column:
        return self.without_nan(_DOUBLES[operator](left, right))

    def minus(self, item: Column) -> Column:
        return -item

    def like(self, text: Column, pattern: LikePattern) -> Column:
        return like.like(text, pattern.parts)

    def shorter(self, text: Column, longest: int) -> Column:
        return F.char_length(text) <= longest

    def affix(self, text: Column, affix: Affix, operand: str, fold: bool) -> Column:
        if fold:
            text = F.translate(text, *_folding())
        return _AFFIXES[affix](text, F.lit(operand))


_AFFIXES: Final[dict[Affix, Callable[[Column, Column], Column]]] = {
    Affix.PREFIX: F.startswith,
    Affix.SUFFIX: F.endswith,
    Affix.WHOLE: lambda text, operand: text == operand,
}


@cache
def _folding() -> tuple[str, str]:
    """All characters that case folding changes, and their results. Spark's `lower` treats sigma by its context."""
    characters = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
    changed = [character for character in characters if folded(character) != character]
    return "".join(changed), "".join(map(folded, changed))
