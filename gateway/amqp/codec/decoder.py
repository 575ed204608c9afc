"""AMQP 1.0 bytes to values (part 1, 1.6), and skipping values without decoding them.

Any bytes give a value or `AmqpError(DECODE_ERROR)`, nothing else, and cost time and memory in proportion
to their length. Every compound checks that its items fill it exactly, so no item
can read outside its parent unnoticed.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

from gateway.amqp.codec import types as t
from gateway.amqp.codec.encoder import ZERO_WIDTH_ITEMS, encode
from gateway.amqp.codec.types import Array, Char, Described, Float, MapKey, Symbol, Value, ValueList, ValueMap
from gateway.errors import DECODE_ERROR, AmqpError


class Limits(NamedTuple):
    """The most that one value may cost: levels of nesting (descriptors count) and encoded bytes."""

    depth: int = 32
    size: int = 128 * 1024 * 1024


LIMITS: Final = Limits()

Reader = Callable[[bytes, int, int], tuple[Value, int]]
"""`(data, position after the constructor, levels left) -> (value, end)`."""

_u32: Final = struct.Struct(">I").unpack_from
_unpack_float: Final = struct.Struct(">f").unpack_from
_unpack_double: Final = struct.Struct(">d").unpack
_pack_u64: Final = struct.Struct(">Q").pack
_compound32: Final = struct.Struct(">II").unpack_from
_TRUNCATED: Final = (IndexError, struct.error)


def malformed(what: str) -> AmqpError:
    """The error for bytes that are not valid AMQP; `what` describes the fault."""
    return AmqpError(DECODE_ERROR, what)


def decode(data: bytes, offset: int = 0, *, limits: Limits = LIMITS) -> tuple[Value, int]:
    """The value that starts at `offset`, and the position after it.

    Raises `AmqpError` (DECODE_ERROR) for malformed bytes and for a value above `limits`.
    """
    if len(data) - offset > limits.size and skip(data, offset) - offset > limits.size:
        raise malformed(f"value larger than {limits.size} bytes")
    try:
        return READERS[data[offset]](data, offset + 1, limits.depth)
    except _TRUNCATED:
        raise malformed("value cut off") from None
    except UnicodeDecodeError as error:
        raise malformed(f"text is not valid {error.encoding}") from None


def decode_all(data: bytes, *, limits: Limits = LIMITS) -> Value:
    """The one value that fills `data`. Raises `AmqpError` (DECODE_ERROR) as `decode` does, and for bytes after it."""
    value, end = decode(data, limits=limits)
    if end != len(data):
        raise malformed("bytes after the value")
    return value


def skip(data: bytes, offset: int = 0) -> int:
    """The position after the value at `offset`, found from constructors and sizes alone.

    Raises `AmqpError` (DECODE_ERROR) for a value that is cut off, unknown or nested too deeply.
    """
    try:
        code = data[offset]
        width = _WIDTHS[code]
        if width >= 0:
            position = offset + 1 + width
        elif width == _SIZE8:
            position = offset + 2 + data[offset + 1]
        elif width == _SIZE32:
            position = offset + 5 + int(_u32(data, offset + 1)[0])
        elif code:
            raise malformed(f"unknown constructor 0x{code:02x}")
        else:
            position = _skip_described(data, offset)
    except _TRUNCATED:
        raise malformed("value cut off") from None
    if position > len(data):
        raise malformed("value cut off")
    return position


def _skip_described(data: bytes, position: int) -> int:
    """The position after a described value; described descriptors and values count against the nesting limit."""
    pending, left = 1, LIMITS.depth
    while pending:
        if data[position]:
            position = skip(data, position)
            pending -= 1
            continue
        position, pending, left = position + 1, pending + 1, left - 1
        if left < 0:
            raise malformed("nested too deeply")
    return position


def _unknown(data: bytes, position: int, depth: int) -> NoReturn:
    raise malformed(f"unknown constructor 0x{data[position - 1]:02x}")


def _deeper(depth: int) -> int:
    if depth <= 0:
        raise malformed("nested too deeply")
    return depth - 1


def _constant(value: Value) -> Reader:
    return lambda data, position, depth: (value, position)


def _fixed(layout: str, make: Callable[[Value], Value]) -> Reader:
    form = struct.Struct(layout)
    unpack, size = form.unpack_from, form.size
    return lambda data, position, depth: (make(unpack(data, position)[0]), position + size)


def _double(data: bytes, position: int, depth: int) -> tuple[float, int]:
    return _unpack_double(data[position : position + 8])[0], position + 8


def _boolean(data: bytes, position: int, depth: int) -> tuple[bool, int]:
    octet = data[position]
    if octet > 1:
        raise malformed("boolean is neither 0 nor 1")
    return octet == 1, position + 1


def _float(data: bytes, position: int, depth: int) -> tuple[Float, int]:
    value = _unpack_float(data, position)[0]
    if value != value:  # by bits: a C conversion would set a NaN's quiet bit
        bits = _u32(data, position)[0]
        wide = (bits >> 31) << 63 | 0x7FF << 52 | (bits & 0x7FFFFF) << 29
        value = _unpack_double(_pack_u64(wide))[0]
    return Float(value), position + 4


def _char(data: bytes, position: int, depth: int) -> tuple[Char, int]:
    point = _u32(data, position)[0]
    if point > 0x10FFFF or 0xD800 <= point < 0xE000:
        raise malformed("char is not a Unicode character")
    return Char(chr(point)), position + 4


def _raw(size: int, make: Callable[[bytes], Value]) -> Reader:
    def read(data: bytes, position: int, depth: int) -> tuple[Value, int]:
        end = position + size
        if end > len(data):
            raise malformed("value cut off")
        return make(data[position:end]), end

    return read


def _make_uuid(raw: bytes) -> uuid.UUID:
    return uuid.UUID(bytes=raw)


def _sized8(make: Callable[[bytes], Value]) -> Reader:
    def read(data: bytes, position: int, depth: int) -> tuple[Value, int]:
        start = position + 1
        end = start + data[position]
        if end > len(data):
            raise malformed("value cut off")
        return make(data[start:end]), end

    return read


def _sized32(make: Callable[[bytes], Value]) -> Reader:
    def read(data: bytes, position: int, depth: int) -> tuple[Value, int]:
        start = position + 4
        end = start + _u32(data, position)[0]
        if end > len(data):
            raise malformed("value cut off")
        return make(data[start:end]), end

    return read


def _text(raw: bytes) -> str:
    return raw.decode()


def _symbol(raw: bytes) -> Symbol:
    return Symbol(raw, "ascii")


Items = Callable[[bytes, int, int, int, int], tuple[Value, int]]
"""`(data, position of the first item, end, count, levels left) -> (value, position after the last)`."""


def _compound8(read_items: Items) -> Reader:
    def read(data: bytes, position: int, depth: int) -> tuple[Value, int]:
        end = position + 1 + data[position]
        return _filled(read_items, data, position + 2, end, data[position + 1], depth)

    return read


def _compound32_of(read_items: Items) -> Reader:
    def read(data: bytes, position: int, depth: int) -> tuple[Value, int]:
        size, count = _compound32(data, position)
        return _filled(read_items, data, position + 8, position + 4 + size, count, depth)

    return read


def _filled(read_items: Items, data: bytes, start: int, end: int, count: int, depth: int) -> tuple[Value, int]:
    if end > len(data) or start > end:
        raise malformed("compound value cut off")
    value, position = read_items(data, start, end, count, _deeper(depth))
    if position != end:
        raise malformed("items do not fill their compound value")
    return value, end


def _list(data: bytes, position: int, end: int, count: int, depth: int) -> tuple[ValueList, int]:
    if count > end - position:
        raise malformed("more items than bytes")
    values = []
    for _ in range(count):
        value, position = READERS[data[position]](data, position + 1, depth)
        values.append(value)
    return values, position


def _map(data: bytes, position: int, end: int, count: int, depth: int) -> tuple[ValueMap, int]:
    if count & 1:
        raise malformed("map with a key but no value")
    flat, position = _list(data, position, end, count, depth)
    keys, values = flat[::2], flat[1::2]
    try:
        result = dict(zip(keys, values, strict=True))
    except TypeError:
        return _strict_map(keys, values), position
    return (result if len(result) == len(keys) else _strict_map(keys, values)), position


def _strict_map(keys: ValueList, values: ValueList) -> ValueMap:
    """A map whose keys a dict cannot tell apart or hold (see `MapKey`); the same key twice is an error (1.6.23)."""
    result: ValueMap = {}
    seen: set[bytes] = set()
    for key, value in zip(keys, values, strict=True):
        encoded = encode(key)
        if encoded in seen:
            raise malformed("map with the same key twice")
        seen.add(encoded)
        result[_distinct(result, key, encoded)] = value
    return result


def _distinct(taken: ValueMap, key: Value, encoded: bytes) -> Value:
    try:
        return MapKey(key, encoded) if key in taken else key
    except TypeError:
        return MapKey(key, encoded)


def _array(data: bytes, position: int, end: int, count: int, depth: int) -> tuple[Array, int]:
    descriptors = []
    while data[position] == 0:
        depth = _deeper(depth)
        descriptor, position = READERS[data[position + 1]](data, position + 2, depth)
        descriptors.append(descriptor)
    code = data[position]
    position += 1
    if count > (end - position if _WIDTHS[code] else ZERO_WIDTH_ITEMS):
        raise malformed("more items than bytes")
    read, items = READERS[code], []
    for _ in range(count):
        item, position = read(data, position, depth)
        items.append(item)
    return Array(_kind(code), tuple(items), tuple(descriptors)), position


def _kind(code: int) -> str:
    if code not in _KINDS:
        raise malformed(f"unknown constructor 0x{code:02x}")
    return _KINDS[code]


def _empty_list(data: bytes, position: int, depth: int) -> tuple[ValueList, int]:
    return [], position


def _described(data: bytes, position: int, depth: int) -> tuple[Described, int]:
    depth = _deeper(depth)
    descriptor, position = READERS[data[position]](data, position + 1, depth)
    value, position = READERS[data[position]](data, position + 1, depth)
    return Described(descriptor, value), position


_CONSTRUCTORS: Final[dict[int, tuple[str, Reader]]] = {
    0x40: ("null", _constant(None)),
    0x41: ("boolean", _constant(True)),
    0x42: ("boolean", _constant(False)),
    0x43: ("uint", _constant(t.Uint(0))),
    0x44: ("ulong", _constant(t.Ulong(0))),
    0x45: ("list", _empty_list),
    0x50: ("ubyte", _fixed(">B", t.Ubyte)),
    0x51: ("byte", _fixed(">b", t.Byte)),
    0x52: ("uint", _fixed(">B", t.Uint)),
    0x53: ("ulong", _fixed(">B", t.Ulong)),
    0x54: ("int", _fixed(">b", t.Int)),
    0x55: ("long", _fixed(">b", t.Long)),
    0x56: ("boolean", _boolean),
    0x60: ("ushort", _fixed(">H", t.Ushort)),
    0x61: ("short", _fixed(">h", t.Short)),
    0x70: ("uint", _fixed(">I", t.Uint)),
    0x71: ("int", _fixed(">i", t.Int)),
    0x72: ("float", _float),
    0x73: ("char", _char),
    0x74: ("decimal32", _raw(4, t.Decimal32)),
    0x80: ("ulong", _fixed(">Q", t.Ulong)),
    0x81: ("long", _fixed(">q", t.Long)),
    0x82: ("double", _double),
    0x83: ("timestamp", _fixed(">q", t.Timestamp)),
    0x84: ("decimal64", _raw(8, t.Decimal64)),
    0x94: ("decimal128", _raw(16, t.Decimal128)),
    0x98: ("uuid", _raw(16, _make_uuid)),
    0xA0: ("binary", _sized8(bytes)),
    0xA1: ("string", _sized8(_text)),
    0xA3: ("symbol", _sized8(_symbol)),
    0xB0: ("binary", _sized32(bytes)),
    0xB1: ("string", _sized32(_text)),
    0xB3: ("symbol", _sized32(_symbol)),
    0xC0: ("list", _compound8(_list)),
    0xC1: ("map", _compound8(_map)),
    0xD0: ("list", _compound32_of(_list)),
    0xD1: ("map", _compound32_of(_map)),
    0xE0: ("array", _compound8(_array)),
    0xF0: ("array", _compound32_of(_array)),
}
_KINDS: Final = {code: kind for code, (kind, _) in _CONSTRUCTORS.items()}

READERS: Final[list[Reader]] = [_unknown] * 256
READERS[0] = _described
for _code, (_, _reader) in _CONSTRUCTORS.items():
    READERS[_code] = _reader

_SIZE8, _SIZE32, _NO_WIDTH = -1, -2, -3
# 1.2: the high half of a constructor gives the width of the value, or of the size that precedes it
_BY_CATEGORY: Final = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16, 0xA: _SIZE8, 0xC: _SIZE8, 0xE: _SIZE8}
_WIDTHS: Final = [
    _BY_CATEGORY.get(code >> 4, _SIZE32) if code in _CONSTRUCTORS else _NO_WIDTH for code in range(256)
]
ASK_SKIP: Final = 255
STEPS: Final = bytes({_SIZE8: 0}.get(width, width + 1 if width >= 0 else ASK_SKIP) for width in _WIDTHS)
"""By constructor, how to step over a value without calling `skip`: the width with the constructor, 0 where one byte of
size follows, or `ASK_SKIP`."""
