"""Values to AMQP 1.0 bytes (part 1, 1.6), always in the shortest form that keeps the type.

A value that does not fit its type is the caller's mistake and raises `ValueError` or `TypeError`.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterable
from typing import Final

from gateway.amqp.codec import types as t
from gateway.amqp.codec.types import Value, ValueList, ValueMap

ZERO_WIDTH_ITEMS: Final = 256
"""The most nulls an array may hold: a null takes no byte, so nothing else bounds their number."""

Packer = Callable[[Value], bytes]

_pack_size: Final = struct.Struct(">BI").pack
_pack_compound8: Final = struct.Struct(">BB").pack
_pack_compound32: Final = struct.Struct(">II").pack
_pack_double: Final = struct.Struct(">d").pack
_pack_float: Final = struct.Struct(">f").pack
_pack_u32: Final = struct.Struct(">I").pack


def encode(value: Value) -> bytes:
    """The shortest encoding of `value`.

    Raises `TypeError` for a type that AMQP does not have, `ValueError` for a number out of the range of its type.
    """
    try:
        return ENCODERS[type(value)](value)
    except KeyError as error:
        raise TypeError(f"no AMQP type for {error.args[0]}") from None
    except struct.error as error:
        raise ValueError(f"{type(value).__name__} out of range: {error}") from None


def encode_map(entries: Iterable[tuple[bytes, bytes]]) -> bytes:
    """A map of already encoded keys and values."""
    parts = [part for entry in entries for part in entry]
    return encode_items(len(parts), b"".join(parts))


def encode_items(count: int, items: bytes) -> bytes:
    """A map of already encoded keys and values in one piece; `count` is the number of both together."""
    return _compound(0xC1, count, items)


def encode_list(fields: list[bytes]) -> bytes:
    """A list of already encoded fields."""
    return _compound(0xC0, len(fields), b"".join(fields)) if fields else b"\x45"


def encode_binary(data: bytes) -> bytes:
    """The encoding of binary `data`: the same as `encode`, for callers that know the type."""
    return _sized(0xA0, data)


def _sized(code: int, data: bytes) -> bytes:
    size = len(data)
    return bytes((code, size)) + data if size < 256 else _pack_size(code + 0x10, size) + data


def _compound(code: int, count: int, payload: bytes) -> bytes:
    if len(payload) < 255 and count < 256:
        return bytes((code, len(payload) + 1, count)) + payload
    return bytes((code + 0x10,)) + _pack_compound32(len(payload) + 4, count) + payload


def _items(values: Iterable[Value]) -> list[bytes]:
    return [ENCODERS[type(value)](value) for value in values]


def _list(value: ValueList) -> bytes:
    return encode_list(_items(value))


def _list_body(value: ValueList) -> tuple[int, bytes]:
    return len(value), b"".join(_items(value))


def _map_body(value: ValueMap) -> tuple[int, bytes]:
    parts = _items(part for entry in value.items() for part in entry)
    return len(parts), b"".join(parts)


def _map(value: ValueMap) -> bytes:
    return _compound(0xC1, *_map_body(value))


def _described(value: t.Described) -> bytes:
    return b"\x00" + encode(value.descriptor) + encode(value.value)


def _array(value: t.Array) -> bytes:
    return _compound(0xE0, *_array_body(value))


def _array_body(value: t.Array) -> tuple[int, bytes]:
    described = b"".join(b"\x00" + encode(descriptor) for descriptor in value.descriptors)
    code, items = _array_items(value.kind, value.items)
    return len(value.items), described + bytes((code,)) + b"".join(items)


def _array_items(kind: str, values: tuple[Value, ...]) -> tuple[int, list[bytes]]:
    """The one constructor all items share, and each item's bytes after it."""
    if kind in _COMPOUND:
        return _compound_items(*_COMPOUND[kind], values)
    if kind in _VARIABLE:
        return _variable_items(*_VARIABLE[kind], values)
    if kind in _SMALL:
        code, pack, low = _SMALL[kind]
        if values and all(low <= value < low + 256 for value in values):
            return code, [pack(value) for value in values]
    if kind == "null":
        return _nulls(values)
    if kind not in _FIXED:
        raise ValueError(f"no AMQP type is called {kind!r}")
    code, pack = _FIXED[kind]
    return code, [pack(value) for value in values]


def _nulls(values: tuple[Value, ...]) -> tuple[int, list[bytes]]:
    if len(values) > ZERO_WIDTH_ITEMS or any(value is not None for value in values):
        raise ValueError(f"an array of null holds up to {ZERO_WIDTH_ITEMS} nulls and nothing else")
    return 0x40, []


def _variable_items(code: int, convert: Packer, values: tuple[Value, ...]) -> tuple[int, list[bytes]]:
    raw = [convert(value) for value in values]
    if all(len(item) < 256 for item in raw):
        return code, [bytes((len(item),)) + item for item in raw]
    return code + 0x10, [_pack_u32(len(item)) + item for item in raw]


def _compound_items(
    code: int, body: Callable[[Value], tuple[int, bytes]], values: tuple[Value, ...]
) -> tuple[int, list[bytes]]:
    raw = [body(value) for value in values]
    if all(count < 256 and len(payload) < 255 for count, payload in raw):
        return code, [_pack_compound8(len(payload) + 1, count) + payload for count, payload in raw]
    return code + 0x10, [_pack_compound32(len(payload) + 4, count) + payload for count, payload in raw]


def _number(code: int, layout: str) -> Packer:
    pack = struct.Struct(">B" + layout).pack
    return lambda value: pack(code, value)


def _unsigned(zero: bytes, small: int, code: int, layout: str) -> Packer:
    pack = struct.Struct(">B" + layout).pack

    def packer(value: int) -> bytes:
        if 0 < value < 256:
            return bytes((small, value))
        return pack(code, value) if value else zero

    return packer


def _signed(small: int, code: int, layout: str) -> Packer:
    pack, pack_small = struct.Struct(">B" + layout).pack, struct.Struct(">Bb").pack
    return lambda value: pack_small(small, value) if -129 < value < 128 else pack(code, value)


def _float_bytes(value: float) -> bytes:
    """A 32-bit float; keeps the payload of a NaN, whose quiet bit a C conversion would set."""
    try:
        if value == value:
            return _pack_float(value)
    except OverflowError:
        raise ValueError("float out of range") from None
    bits = int.from_bytes(_pack_double(value), "big")
    narrow = (bits >> 29) & 0x7FFFFF or 0x400000
    return _pack_u32((bits >> 63) << 31 | 0x7F800000 | narrow)


def _char_bytes(value: str) -> bytes:
    if len(value) != 1:
        raise ValueError("a char is one character")
    return value.encode("utf-32-be")


def _exactly(size: int) -> Packer:
    def packer(value: bytes) -> bytes:
        if len(value) != size:
            raise ValueError(f"this decimal has {size} bytes")
        return bytes(value)

    return packer


def _prefixed(code: int, pack: Packer) -> Packer:
    prefix = bytes((code,))
    return lambda value: prefix + pack(value)


def _uuid_bytes(value: uuid.UUID) -> bytes:
    return value.bytes


_FIXED: Final[dict[str, tuple[int, Packer]]] = {
    "boolean": (0x56, lambda value: b"\x01" if value else b"\x00"),
    "ubyte": (0x50, struct.Struct(">B").pack),
    "ushort": (0x60, struct.Struct(">H").pack),
    "uint": (0x70, _pack_u32),
    "ulong": (0x80, struct.Struct(">Q").pack),
    "byte": (0x51, struct.Struct(">b").pack),
    "short": (0x61, struct.Struct(">h").pack),
    "int": (0x71, struct.Struct(">i").pack),
    "long": (0x81, struct.Struct(">q").pack),
    "timestamp": (0x83, struct.Struct(">q").pack),
    "float": (0x72, _float_bytes),
    "double": (0x82, _pack_double),
    "decimal32": (0x74, _exactly(4)),
    "decimal64": (0x84, _exactly(8)),
    "decimal128": (0x94, _exactly(16)),
    "char": (0x73, _char_bytes),
    "uuid": (0x98, _uuid_bytes),
}
_SMALL: Final[dict[str, tuple[int, Packer, int]]] = {
    "uint": (0x52, struct.Struct(">B").pack, 0),
    "ulong": (0x53, struct.Struct(">B").pack, 0),
    "int": (0x54, struct.Struct(">b").pack, -128),
    "long": (0x55, struct.Struct(">b").pack, -128),
}
_VARIABLE: Final[dict[str, tuple[int, Packer]]] = {
    "binary": (0xA0, bytes),
    "string": (0xA1, str.encode),
    "symbol": (0xA3, lambda value: value.encode("ascii")),
}
_COMPOUND: Final[dict[str, tuple[int, Callable[[Value], tuple[int, bytes]]]]] = {
    "list": (0xC0, _list_body),
    "map": (0xC1, _map_body),
    "array": (0xE0, _array_body),
}

ENCODERS: Final[dict[type, Packer]] = {
    type(None): lambda value: b"\x40",
    bool: lambda value: b"\x41" if value else b"\x42",
    int: _signed(0x55, 0x81, "q"),
    t.Ubyte: _number(0x50, "B"),
    t.Ushort: _number(0x60, "H"),
    t.Uint: _unsigned(b"\x43", 0x52, 0x70, "I"),
    t.Ulong: _unsigned(b"\x44", 0x53, 0x80, "Q"),
    t.Byte: _number(0x51, "b"),
    t.Short: _number(0x61, "h"),
    t.Int: _signed(0x54, 0x71, "i"),
    t.Long: _signed(0x55, 0x81, "q"),
    t.Timestamp: _number(0x83, "q"),
    float: _number(0x82, "d"),
    t.Float: _prefixed(0x72, _float_bytes),
    t.Decimal32: _prefixed(0x74, _exactly(4)),
    t.Decimal64: _prefixed(0x84, _exactly(8)),
    t.Decimal128: _prefixed(0x94, _exactly(16)),
    t.Char: _prefixed(0x73, _char_bytes),
    uuid.UUID: _prefixed(0x98, _uuid_bytes),
    bytes: lambda value: _sized(0xA0, value),
    str: lambda value: _sized(0xA1, value.encode()),
    t.Symbol: lambda value: _sized(0xA3, value.encode("ascii")),
    list: _list,
    dict: _map,
    t.Described: _described,
    t.Array: _array,
    t.MapKey: lambda value: value.encoded,
}
"""The encoder of each Python type; `encode` adds readable errors."""
