"""The fields of a record batch in parts: maps, structs and promoted columns (docs/columns.md).

Arrow's own `map_lookup` reads 1.5 million rows a second. Here a batch whose rows all have the same names is recognized
once, and each name has a fixed place; in other batches the entries of a name are found by comparing all keys at once,
and their rows by the offsets of the maps. A member is read only when it is used.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bridges.spark.columns import schema
from bridges.spark.columns.arrow.datum import Datum
from bridges.spark.columns.filters.engine import MEMBERS, OF_TYPE, ColumnPart
from gateway.amqp.codec.codec import Char, encode
from gateway.filters.predicate import FieldReference, MessageSection


class AbsentColumn:
    """A field that no row has."""

    def part(self, part: ColumnPart) -> pa.Array | None:
        return None

    def present(self) -> Datum:
        return pa.scalar(False)

    exists = present

    def is_a(self, kind: str) -> Datum:
        return pa.scalar(False)


class FoundColumn:
    """Values of any type: an array of `VALUE` structs, or its entries at `places`, which are null if absent."""

    def __init__(self, members: dict[str, pa.Array], places: pa.Array | None = None) -> None:
        self._members, self._places = members, places
        self._taken: dict[str, pa.Array | None] = {}
        self._decided = False
        """Whether one member has the values of all rows, so that all others are null."""
        self._parts: dict[ColumnPart, pa.Array | None] = {}

    def member(self, name: str) -> pa.Array | None:
        """A member of every row; `None`: all are null."""
        if name not in self._taken:
            self._taken[name] = None if self._decided and name != "type" else self._take(name)
        return self._taken[name]

    def _take(self, name: str) -> pa.Array | None:
        array = self._members[name]
        if array.null_count < len(array) and self._places is not None:
            array = array.take(self._places)
        nulls = array.null_count
        self._decided = self._decided or (nulls == 0 and name != "type")
        return None if nulls == len(array) else array

    def part(self, part: ColumnPart) -> pa.Array | None:
        if part not in self._parts:
            self._parts[part] = self._restricted(part)
        return self._parts[part]

    def _restricted(self, part: ColumnPart) -> pa.Array | None:
        array = self.member(MEMBERS[part])
        if array is None or part not in OF_TYPE:
            return array
        kind, wanted = OF_TYPE[part]
        selected = self.is_a(kind)
        if not wanted:
            if not pc.any(selected).as_py():
                return array
            selected = pc.invert(selected)
        return pc.if_else(selected, array, pa.scalar(None, array.type))

    def exists(self) -> Datum:
        types = self.member("type")
        return pa.scalar(False) if types is None else pc.is_valid(types)

    def present(self) -> Datum:
        types = self.member("type")
        return pa.scalar(False) if types is None else pc.fill_null(pc.not_equal(types, "null"), False)

    def is_a(self, kind: str) -> Datum:
        types = self.member("type")
        return pa.scalar(False) if types is None else pc.fill_null(pc.equal(types, kind), False)


class PlainColumn:
    """Values of one type: a promoted column, or a field of the header or the properties."""

    def __init__(self, array: pa.Array, *parts: ColumnPart) -> None:
        self._array, self._parts = array, parts

    def part(self, part: ColumnPart) -> pa.Array | None:
        return self._array if part in self._parts else None

    def present(self) -> Datum:
        return pc.is_valid(self._array)

    exists = present

    def is_a(self, kind: str) -> Datum:
        return pa.scalar(False)


ArrowField: TypeAlias = AbsentColumn | FoundColumn | PlainColumn


class Maps:
    """One column of maps."""

    def __init__(self, array: pa.Array) -> None:
        offsets = np.asarray(array.offsets)
        first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        self._offsets = offsets - first
        self._keys = array.keys.slice(first, last - first)
        items = array.items.slice(first, last - first)
        self._members = dict(zip(schema.MEMBERS, items.flatten(), strict=True))
        self._rows = len(array)

    @cached_property
    def _starts(self) -> NDArray[np.int64] | None:
        """Where the entries of each row begin, if every row has the same number of them."""
        width = len(self._keys) // self._rows if self._rows else 0
        starts = np.arange(0, self._rows * width + 1, width or 1)
        return starts[:-1] if width and np.array_equal(self._offsets, starts) else None

    @cached_property
    def _row_of(self) -> NDArray[np.int64]:
        return np.repeat(np.arange(self._rows), np.diff(self._offsets))

    @cached_property
    def _columns(self) -> dict[str, int] | None:
        """The place of each name, if every row has the same names in the same order, as most producers send them."""
        if self._starts is None or not pa.types.is_string(self._keys.type):
            return None
        width, (_, offsets, data) = len(self._keys) // self._rows, self._keys.buffers()
        ends = np.frombuffer(offsets, np.int32)[self._keys.offset : self._keys.offset + len(self._keys) + 1]
        sizes, text = np.diff(ends), np.frombuffer(data or b"", np.uint8)[ends[0] : ends[-1]]
        if not (_repeats(sizes, width) and _repeats(text, int(ends[width] - ends[0]))):
            return None
        return {name: place for place, name in enumerate(self._keys.slice(0, width).to_pylist())}

    def found(self, name: str) -> FoundColumn | AbsentColumn:
        """The values of a key, which a map has at most once."""
        starts, columns = self._starts, self._columns
        if starts is not None and columns is not None:
            place = columns.get(name)
            return AbsentColumn() if place is None else FoundColumn(self._members, pa.array(starts + place))
        entries = np.asarray(pc.indices_nonzero(pc.equal(self._keys, name))).view(np.int64)
        if not len(entries):
            return AbsentColumn()
        places = np.full(self._rows, -1, dtype=np.int64)
        places[self._row_of[entries]] = entries
        return FoundColumn(self._members, pa.array(places, mask=places < 0))


def _repeats(items: NDArray[np.integer], period: int) -> bool:
    return period == 0 or np.array_equal(items[period:], items[:-period])


class Fields:
    """The fields of one record batch, each looked up once."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._names: Final = frozenset(batch.schema.names)
        self._maps: dict[str, Maps] = {}
        self._fields: dict[FieldReference, ArrowField] = {}

    def __getitem__(self, field: FieldReference) -> ArrowField:
        if field not in self._fields:
            self._fields[field] = self._field(field)
        return self._fields[field]

    def _field(self, field: FieldReference) -> ArrowField:
        promoted, path = schema.promoted(field), schema.steps(field)
        if not promoted or path is None:
            return AbsentColumn()
        if promoted in self._names:
            return promoted_field(self._batch.column(promoted))
        name = schema.SECTIONS[field.section]
        if field.section is MessageSection.HEADER:
            return AbsentColumn() if path else self._header(field.name)
        if field.section is MessageSection.PROPERTIES:
            return AbsentColumn() if path else self._property(field.name)
        if name not in self._maps:
            self._maps[name] = Maps(self._batch.column(name))
        return self._maps[name].found(schema.entry(field.section, field.name, path))

    def _header(self, name: str) -> ArrowField:
        name = schema.member(name, schema.HEADER)
        if not name:
            return AbsentColumn()
        array = pc.struct_field(self._batch.column("header"), name)
        array = pc.fill_null(array, schema.DEFAULTS[name]) if name in schema.DEFAULTS else array
        if pa.types.is_boolean(array.type):
            return PlainColumn(array, ColumnPart.BOOLEAN)
        return PlainColumn(array.cast(pa.int64()), ColumnPart.INTEGER, ColumnPart.LONG)

    def _property(self, name: str) -> ArrowField:
        name = schema.member(name, schema.PROPERTIES)
        if not name:
            return AbsentColumn()
        array = pc.struct_field(self._batch.column("properties"), name)
        if schema.PROPERTIES[name] == schema.VALUE:
            return FoundColumn(dict(zip(schema.MEMBERS, array.flatten(), strict=True)))
        return PlainColumn(array, *_parts_of(array.type, name in schema.TIMES))


def promoted_field(array: pa.Array) -> ArrowField:
    """A promoted column: `VALUE` structs, or a plain array with values of one type."""
    kind = array.type
    if pa.types.is_struct(kind):
        return FoundColumn(dict(zip(schema.MEMBERS, array.flatten(), strict=True)))
    if pa.types.is_timestamp(kind):
        return PlainColumn(array.cast(pa.timestamp("ms")).cast(pa.int64()), ColumnPart.TIME, ColumnPart.LONG)
    if pa.types.is_integer(kind):
        return PlainColumn(array.cast(pa.int64()), ColumnPart.INTEGER, ColumnPart.LONG)
    if pa.types.is_decimal(kind):
        return PlainColumn(array.cast(pa.decimal128(38, 18)), ColumnPart.DECIMAL, ColumnPart.DEC)
    if pa.types.is_floating(kind):
        return PlainColumn(array.cast(pa.float64()), ColumnPart.DOUBLE)
    return PlainColumn(array, *_parts_of(kind, False))


def _parts_of(kind: pa.DataType, time: bool) -> tuple[ColumnPart, ...]:
    if time:
        return ColumnPart.TIME, ColumnPart.LONG
    if pa.types.is_integer(kind):
        return ColumnPart.INTEGER, ColumnPart.LONG
    if pa.types.is_boolean(kind):
        return (ColumnPart.BOOLEAN,)
    return (ColumnPart.BINARY,) if pa.types.is_binary(kind) else (ColumnPart.TEXT,)


def char(text: str) -> bytes:
    """A char as the member `binary` has it."""
    return encode(Char(text))
