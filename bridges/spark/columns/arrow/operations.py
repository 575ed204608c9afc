"""Predicates over Arrow record batches: a mask per batch, without Python per row (FX-2-1, docs/columns.md).

`compile_filter` checks that columns can answer a predicate (`filters.check`) and returns a function from a batch in the
layout of `schema` to booleans; the one of `compile_verdict` returns null for unknown. Fields may also be promoted to
columns of their own by `promote`, with names of `schema.promoted`, plain or dictionary-encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import reduce
from typing import Final, TypeAlias
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridges.spark.columns import schema
from bridges.spark.columns.arrow import integers
from bridges.spark.columns.arrow import text as arrow_text
from bridges.spark.columns.arrow.datum import Datum
from bridges.spark.columns.arrow.fields import ArrowField, Fields, FoundColumn, char
from bridges.spark.columns.filters import check
from bridges.spark.columns.filters.check import Needs
from bridges.spark.columns.filters.compiler import ColumnCompiler
from bridges.spark.columns.filters.engine import ColumnPart, LikePattern
from gateway.amqp.codec.types import Value
from gateway.filters.predicate import Affix, Comparison, FieldReference, Operator, Predicate
from gateway.filters.values import LONG_MAX, LONG_MIN

Mask: TypeAlias = Callable[[pa.RecordBatch | pa.Table], pa.BooleanArray | pa.ChunkedArray]
"""From a record batch to an array, or from a table to a chunked array; the values are booleans."""
BatchMask: TypeAlias = Callable[[pa.RecordBatch], Datum]


def compile_filter(predicate: Predicate, *, strict: bool = True) -> Mask:
    """Whether each row matches: true or false, never null.

    Raises `AmqpError` (amqp:not-implemented) for a predicate that columns cannot answer. With `strict`, the function
    raises the same error if columns lack a value that the predicate reads; without, such rows do not match.
    """
    needs, verdict = check.check(predicate), compile_verdict(predicate)

    def mask(batch: pa.RecordBatch) -> Datum:
        return pc.and_(pc.fill_null(verdict(batch), False), _answerable(batch, needs, strict))

    return _each_batch(mask)


def compile_verdict(predicate: Predicate) -> Mask:
    """The value of the predicate for each row: true, false, null for unknown; marks in `not_shown` are ignored."""
    check.check(predicate)

    def verdict(batch: pa.RecordBatch) -> pa.Array:
        found = ColumnCompiler(_ArrowOperations(batch)).truth(predicate)
        return _array(found, batch.num_rows, pa.bool_())

    return _each_batch(verdict)


def promote(batch: pa.RecordBatch, fields: Sequence[FieldReference]) -> pa.RecordBatch:
    """The batch with a column for each of these fields, so that filters need no lookup in a map.

    If all values of a field have one type, its column is plain (text: dictionary-encoded), else it has value structs.
    """
    found = Fields(batch)
    for field in fields:
        name = schema.promoted(field)
        if name and name not in batch.schema.names:
            batch = batch.append_column(name, _promoted(found[field], batch.num_rows))
    return batch


def _promoted(values: ArrowField, rows: int) -> pa.Array:
    plain = {
        part: array
        for part in (ColumnPart.TEXT, ColumnPart.LONG, ColumnPart.DOUBLE, ColumnPart.BOOLEAN)
        if (array := values.part(part)) is not None
    }
    if len(plain) == 1:
        ((part, array),) = plain.items()
        alone = part is not ColumnPart.LONG or values.part(ColumnPart.INTEGER) is array
        if alone and pc.equal(pc.is_valid(array), _array(values.exists(), rows, pa.bool_())).true_count == rows:
            return array.dictionary_encode() if part is ColumnPart.TEXT else array
    members = {name: values.member(name) for name in schema.MEMBERS} if isinstance(values, FoundColumn) else {}
    kinds = {
        name: pa.decimal128(38, 18) if kind.startswith("decimal") else _KINDS[kind]
        for name, kind in schema.MEMBERS.items()
    }
    arrays = [pa.nulls(rows, kinds[name]) if members.get(name) is None else members[name] for name in schema.MEMBERS]
    return pa.StructArray.from_arrays(arrays, names=list(schema.MEMBERS))


_KINDS: Final = {
    "string": pa.string(), "boolean": pa.bool_(), "bigint": pa.int64(), "double": pa.float64(), "binary": pa.binary()
}  # fmt: skip


def _each_batch(of_batch: BatchMask) -> Mask:
    def of_any(batch: pa.RecordBatch | pa.Table) -> pa.BooleanArray | pa.ChunkedArray:
        if isinstance(batch, pa.RecordBatch):
            return of_batch(batch)
        return pa.chunked_array([of_batch(part) for part in batch.to_batches()], pa.bool_())

    return of_any


def _array(item: Datum, rows: int, kind: pa.DataType) -> pa.Array:
    return pa.repeat(item.cast(kind), rows) if isinstance(item, pa.Scalar) else item


def _answerable(batch: pa.RecordBatch, needs: Needs, strict: bool) -> Datum:
    """False for rows whose marks say that they lack what a predicate needs."""
    marks = batch.column("not_shown") if "not_shown" in batch.schema.names else None
    if marks is None or marks.null_count == len(marks):
        return pa.scalar(True)
    parents, names = pc.list_parent_indices(marks), pc.list_flatten(marks)
    hidden = pc.is_in(names, value_set=pa.array(needs.entries, pa.string()))
    if strict and pc.any(hidden).as_py():
        raise check.unanswerable(pc.unique(pc.filter(names, hidden)).to_pylist())
    lacking = np.asarray(pc.or_(hidden, pc.is_in(names, value_set=pa.array(needs.sections, pa.string()))))
    answerable = np.ones(len(marks), dtype=bool)
    answerable[np.asarray(parents)[lacking]] = False
    return pa.array(answerable)


_COMPARE: Final = {
    Comparison.EQ: pc.equal,
    Comparison.NE: pc.not_equal,
    Comparison.LT: pc.less,
    Comparison.LE: pc.less_equal,
    Comparison.GT: pc.greater,
    Comparison.GE: pc.greater_equal,
}
_DECIMAL: Final = pa.decimal128(38, 18)
_LITERALS: Final[dict[ColumnPart, tuple[pa.DataType, Callable[[Value], object]]]] = {
    ColumnPart.LONG: (pa.int64(), int),
    ColumnPart.INTEGER: (pa.int64(), int),
    ColumnPart.TIME: (pa.int64(), int),
    ColumnPart.DEC: (_DECIMAL, Decimal),
    ColumnPart.DECIMAL: (_DECIMAL, Decimal),
    ColumnPart.WIDE: (_DECIMAL, Decimal),
    ColumnPart.WHOLE: (pa.decimal256(38, 0), Decimal),
    ColumnPart.DOUBLE: (pa.float64(), float),
    ColumnPart.BOOLEAN: (pa.bool_(), bool),
    ColumnPart.TEXT: (pa.string(), str),
    ColumnPart.UUID: (pa.string(), lambda value: str(UUID(int=value.int))),
    ColumnPart.BINARY: (pa.binary(), bytes),
    ColumnPart.CHAR: (pa.binary(), char),
}
_DIVISIONS: Final = (Operator.DIV, Operator.MOD)


class _ArrowOperations:
    """`ColumnOperations` with arrays and scalars of Arrow."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._fields = Fields(batch)

    def field(self, field: FieldReference) -> ArrowField:
        return self._fields[field]

    def literal(self, part: ColumnPart, value: Value) -> Datum:
        kind, convert = _LITERALS[part]
        return pa.scalar(None if value is None else convert(value), kind)

    def constant(self, value: bool | None) -> Datum:
        return pa.scalar(value, pa.bool_())

    def compare(self, comparison: Comparison, left: Datum, right: Datum) -> Datum:
        compare = _COMPARE[comparison]
        if isinstance(right, pa.Scalar):
            return arrow_text.on_distinct(lambda array: compare(array, right), left)
        return compare(arrow_text.dense(left), arrow_text.dense(right))

    def every(self, items: Sequence[Datum]) -> Datum:
        return reduce(pc.and_kleene, items)

    def some(self, items: Sequence[Datum]) -> Datum:
        return reduce(pc.or_kleene, items)

    def negation(self, item: Datum) -> Datum:
        return pc.invert(item)

    def first(self, items: Sequence[Datum]) -> Datum:
        return pc.coalesce(*items)

    def where(self, condition: Datum, item: Datum) -> Datum:
        return pc.if_else(condition, item, pa.scalar(None, item.type))

    def valid(self, item: Datum) -> Datum:
        return pc.is_valid(item)

    def to_double(self, part: ColumnPart, item: Datum) -> Datum:
        if part is ColumnPart.INTEGER:
            return pc.cast(item, pa.float64(), safe=False)
        return pc.cast(pc.cast(item, pa.string()), pa.float64())  # Arrow's own cast of decimals rounds incorrectly

    def to_decimal(self, item: Datum) -> Datum:
        return pc.cast(item, _DECIMAL)

    def without_nan(self, item: Datum) -> Datum:
        return self.where(pc.invert(pc.is_nan(item)), item)

    def whole(self, operator: Operator, left: Datum, right: Datum) -> Datum:
        if operator in _DIVISIONS:
            return integers.divided(operator, left, right)
        one, other = _extent(left), _extent(right)
        fits = one is None or other is None or _fits(operator, one, other)
        return _ARITHMETIC[operator](left, right) if fits else self.wide(operator, left, right)

    def wide(self, operator: Operator, left: Datum, right: Datum) -> Datum:
        if operator in _DIVISIONS:
            return integers.divided(operator, left, right)
        result = _ARITHMETIC[operator](_integral(left), _integral(right))
        low, high = (pa.scalar(Decimal(bound), pa.decimal256(19, 0)) for bound in (LONG_MIN, LONG_MAX))
        in_long = pc.and_(pc.greater_equal(result, low), pc.less_equal(result, high))
        return pc.cast(pc.cast(self.where(in_long, result), pa.string()), pa.int64())

    def approximate(self, operator: Operator, left: Datum, right: Datum) -> Datum:
        if operator in _DIVISIONS:
            right = self.where(pc.not_equal(right, 0.0), right)
        result = _remainder(left, right) if operator is Operator.MOD else _DOUBLES[operator](left, right)
        return self.without_nan(result)

    def minus(self, item: Datum) -> Datum:
        return pc.negate(item)

    def like(self, text: Datum, pattern: LikePattern) -> Datum:
        return arrow_text.like(text, pattern)

    def shorter(self, text: Datum, longest: int) -> Datum:
        return arrow_text.on_distinct(lambda array: pc.less_equal(pc.utf8_length(array), longest), text)

    def affix(self, text: Datum, affix: Affix, operand: str, fold: bool) -> Datum:
        return arrow_text.affix(text, affix, operand, fold)


_ARITHMETIC: Final = {Operator.ADD: pc.add, Operator.SUB: pc.subtract, Operator.MUL: pc.multiply}
_DOUBLES: Final = {**_ARITHMETIC, Operator.DIV: pc.divide}


def _extent(item: Datum) -> tuple[int, int] | None:
    """The least and the greatest long of an array; `None`: it has none."""
    if isinstance(item, pa.Scalar):
        value = item.as_py()
        return None if value is None else (value, value)
    bounds = pc.min_max(item).as_py()
    return None if bounds["min"] is None else (bounds["min"], bounds["max"])


def _fits(operator: Operator, one: tuple[int, int], other: tuple[int, int]) -> bool:
    """Whether every result of operands within these bounds is a long."""
    compute = {Operator.ADD: int.__add__, Operator.SUB: int.__sub__, Operator.MUL: int.__mul__}[operator]
    return all(LONG_MIN <= compute(left, right) <= LONG_MAX for left in one for right in other)


def _integral(item: Datum) -> Datum:
    """Longs, or decimals without decimal places, as decimals with as few digits as possible."""
    if pa.types.is_decimal256(item.type):
        return item
    if pa.types.is_integer(item.type):
        return pc.cast(item, pa.decimal256(19, 0))
    # as text first: Arrow 26 refuses to cast 18446744073709551615 with 18 decimal places
    return pc.cast(integers.digits(item), pa.decimal256(20, 0))


def _remainder(left: Datum, right: Datum) -> Datum:
    """The remainder, which Arrow lacks; numpy's has the sign of its left operand, as in C and SQL."""
    rows = next((len(item) for item in (left, right) if not isinstance(item, pa.Scalar)), None)
    sides = [_array(item, rows or 1, pa.float64()) for item in (left, right)]
    missing = pc.or_(pc.is_null(sides[0]), pc.is_null(sides[1]))
    with np.errstate(all="ignore"):
        result = np.fmod(*(np.asarray(pc.fill_null(side, np.nan)) for side in sides))
    found = pa.array(result, mask=np.asarray(missing))
    return found if rows is not None else found[0]
