"""AMQP 1.0 values that Python has no type of its own for (part 1, 1.6); the Python type decides the wire type.

`None`, `bool`, `float` (double), `bytes` (binary), `str` (string), `uuid.UUID`, `list` and `dict` (map) stand
for themselves and a plain `int` is a long. The classes here compare like what they wrap, so
`Symbol("a") == "a"` and `Ulong(1) == 1`: convenient everywhere but in map keys, for which see `MapKey`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = Any
"""A value as `decode` returns it and `encode` takes it: None, bool, int, float, str, bytes, UUID, list, dict
or a class of this module.

It is `Any`, as of `json.loads`, because a peer may send any type at any place: code looks the exact type up
(`type(value)` in a table or a set), which no type checker follows, and a union would need a cast at each such place.
Where a function accepts whatever it is given and checks it with `isinstance`, its parameter is `object`.
"""
ValueList: TypeAlias = list[Value]
"""A list (1.6.22), or the fields of a section or performative."""
ValueMap: TypeAlias = dict[Value, Value]
"""A map (1.6.23): annotations, application properties, a filter set. For its keys see `MapKey`."""


class Ubyte(int):
    """0 to 255."""

    __slots__ = ()


class Ushort(int):
    """0 to 2**16 - 1."""

    __slots__ = ()


class Uint(int):
    """0 to 2**32 - 1."""

    __slots__ = ()


class Ulong(int):
    """0 to 2**64 - 1."""

    __slots__ = ()


class Byte(int):
    """-128 to 127."""

    __slots__ = ()


class Short(int):
    """-2**15 to 2**15 - 1."""

    __slots__ = ()


class Int(int):
    """-2**31 to 2**31 - 1."""

    __slots__ = ()


class Long(int):
    """-2**63 to 2**63 - 1; a plain `int` is encoded the same way."""

    __slots__ = ()


class Timestamp(int):
    """Milliseconds since 1970 UTC, signed 64 bits."""

    __slots__ = ()


class Float(float):
    """A 32-bit float; a plain `float` is a double."""

    __slots__ = ()


class Decimal32(bytes):
    """The four IEEE 754-2008 bytes as they are on the wire."""

    __slots__ = ()


class Decimal64(bytes):
    """The eight IEEE 754-2008 bytes as they are on the wire."""

    __slots__ = ()


class Decimal128(bytes):
    """The sixteen IEEE 754-2008 bytes as they are on the wire."""

    __slots__ = ()


class Char(str):
    """One Unicode character."""

    __slots__ = ()


class Symbol(str):
    """An ASCII symbol."""

    __slots__ = ()


class Described(NamedTuple):
    """A value with a descriptor (1.2.1)."""

    descriptor: Value
    value: Value


class Array(NamedTuple):
    """Items of one AMQP type (1.6.24): `kind` is its name in the specification, as "symbol" or "ulong".

    In an array of described values `descriptors` holds the shared descriptor, outermost first, and
    `items` the values below it.
    """

    kind: str
    items: tuple[Value, ...]
    descriptors: tuple[Value, ...] = ()


class MapKey:
    """A map key that a Python dict cannot hold as it is.

    AMQP maps may hold keys that Python calls equal (`1`, `True` and `1.0`; symbol "a" and string "a") and
    keys that Python cannot hash (lists, maps). The first of equal keys stays plain; the others, and
    every unhashable one, are wrapped in this, so that nothing is lost and encoding gives them back. It
    equals only another `MapKey` of the same AMQP type and value.
    """

    __slots__ = ("encoded", "value")

    def __init__(self, value: Value, encoded: bytes) -> None:
        self.value = value
        self.encoded = encoded

    def __eq__(self, other: object) -> bool:
        return isinstance(other, MapKey) and self.encoded == other.encoded

    def __hash__(self) -> int:
        return hash(self.encoded)

    def __repr__(self) -> str:
        return f"MapKey({self.value!r})"
