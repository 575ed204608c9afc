"""Values of any AMQP type as Arrow arrays: the value structs and maps of `schema` (docs/columns.md).

Values are collected in lists and become one array per member at the end, so that a value costs two appends.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final
from uuid import UUID

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from bridges.spark.columns import schema
from gateway.amqp.codec import types as t
from gateway.amqp.codec.codec import encode
from gateway.amqp.codec.types import Value
from gateway.filters.decimals import decimal_value

PRIMITIVES: Final = {
    "string": pa.string(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "decimal(38,18)": pa.decimal128(38, 18),
    "binary": pa.binary(),
    "timestamp": pa.timestamp("us", "UTC"),
    "array<string>": pa.list_(pa.field("element", pa.string())),
}
VALUE: Final = pa.struct([pa.field(name, PRIMITIVES[kind]) for name, kind in schema.MEMBERS.items()])
TYPES: Final[dict[str, pa.DataType]] = {**PRIMITIVES, schema.VALUE: VALUE, schema.ENTRIES: pa.map_(pa.string(), VALUE)}

_NAMES: Final = (*schema.TYPES, "ulong", "decimal32", "decimal64", "decimal128", "list", "map", "array", "described")
_HELD: Final = (*schema.TYPES.values(), "decimal", "binary", "binary", "binary", None, None, None, None)
_CODES: Final = {name: code for code, name in enumerate(schema.TYPES)}
_WIDE: Final = len(schema.TYPES)
_OUTSIDE: Final = {"decimal32": _WIDE + 1, "decimal64": _WIDE + 2, "decimal128": _WIDE + 3}
COMPOSITES: Final = {list: _WIDE + 4, dict: _WIDE + 5, t.Array: _WIDE + 6, t.Described: _WIDE + 7}
_BY_TYPE: Final = {
    type(None): "null", bool: "boolean", t.Ubyte: "ubyte", t.Ushort: "ushort", t.Uint: "uint", t.Ulong: "ulong",
    t.Byte: "byte", t.Short: "short", t.Int: "int", t.Long: "long", int: "long", t.Timestamp: "timestamp",
    t.Float: "float", float: "double", t.Decimal32: "decimal32", t.Decimal64: "decimal64", t.Decimal128: "decimal128",
    str: "string", t.Symbol: "symbol", UUID: "uuid", bytes: "binary", t.Char: "char", list: "list", dict: "map",
    t.Array: "array", t.Described: "described",
}  # fmt: skip
_PLAIN: Final = {
    kind: _CODES[name]
    for kind, name in _BY_TYPE.items()
    if schema.TYPES[name] in (None, "boolean", "long", "double", "text") and kind is not t.Ulong
} | {bytes: _CODES["binary"]}
"""Types whose values are stored unchanged."""
_LONG_MAX: Final = (1 << 63) - 1


@cache
def _type_names() -> pa.Array:
    """The names of types, by code. The first array that pyarrow makes of Python's objects imports pandas."""
    return pa.array(_NAMES)


def _stored(value: Value) -> tuple[int, Value]:
    """The code of a value's type and member, and the value to store there."""
    kind = type(value)
    if kind is t.Ulong:
        return (_CODES["ulong"], value) if value <= _LONG_MAX else (_WIDE, value)
    if kind is UUID:
        return _CODES["uuid"], str(value)
    name = _BY_TYPE[kind]
    if schema.TYPES[name] == "decimal":
        number = decimal_value(value)
        return (_OUTSIDE[name], encode(value)) if number is None else (_CODES[name], number)
    return _CODES[name], encode(value)


_MEMBERS: Final = tuple(schema.MEMBERS)[1:]
_MEMBER_OF: Final = np.array([-1 if held is None else _MEMBERS.index(held) for held in _HELD], dtype=np.int8)


class Values:
    """Collects values of any type for one array of `VALUE`."""

    __slots__ = ("codes", "values")

    def __init__(self) -> None:
        self.codes: list[int] = []
        self.values: list[Value] = []

    def add(self, value: Value) -> None:
        code = _PLAIN.get(type(value))
        if code is None:
            code, value = _stored(value)
        self.codes.append(code)
        self.values.append(value)

    def add_type(self, value: Value) -> None:
        """Append only the type of a value."""
        self.codes.append(COMPOSITES[type(value)])
        self.values.append(None)

    def array(self, absent: pa.Array | None = None) -> pa.Array:
        codes = np.array(self.codes, dtype=np.uint8)
        members = _MEMBER_OF[codes]
        parts = [_type_names().take(pa.array(codes))]
        for index, name in enumerate(_MEMBERS):
            parts.append(_scattered(self.values, np.flatnonzero(members == index), VALUE.field(name).type))
        return pa.StructArray.from_arrays(parts, fields=list(VALUE), mask=absent)


def _scattered(values: list[Value], places: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """An array as long as `values`, with the values at `places` and null elsewhere."""
    total = len(values)
    if not len(places):
        return pa.nulls(total, kind)
    if len(places) == total:
        return pa.array(values, kind)
    index = np.full(total, -1, dtype=np.int64)
    index[places] = np.arange(len(places))
    return pa.array([values[place] for place in places], kind).take(pa.array(index, mask=index < 0))


class EntryArrays:
    """A column of maps."""

    __slots__ = ("ends", "names", "values")

    def __init__(self) -> None:
        self.ends: list[int] = [0]
        self.names: list[str] = []
        self.values = Values()

    def add(self, name: str, value: Value) -> None:
        self.names.append(name)
        self.values.add(value)

    def add_plain(self, names: Iterable[str], values: Iterable[Value]) -> bool:
        """Add all entries at once, or none and return `False` if one of them needs a conversion."""
        try:
            codes = [_PLAIN[type(value)] for value in values]
        except KeyError:
            return False
        self.names += names
        self.values.codes += codes
        self.values.values += values
        return True

    def end(self) -> None:
        self.ends.append(len(self.names))

    def array(self) -> pa.Array:
        return pa.MapArray.from_arrays(
            pa.array(self.ends, pa.int32()), pa.array(self.names, pa.string()), self.values.array()
        )
