"""Hypothesis strategies for AMQP values and encoded messages, and a comparison that respects types and NaNs."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from gateway.amqp.codec.codec import (
    Array,
    Byte,
    Char,
    Decimal32,
    Decimal64,
    Decimal128,
    Described,
    Float,
    Int,
    Long,
    MapKey,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    encode,
)
from gateway.amqp.codec.decoder import skip
from gateway.amqp.message import sections
from gateway.errors import AmqpError


def same(left: Any, right: Any) -> bool:
    """Equal in AMQP type and value, NaN payloads and the order of map entries included."""
    if type(left) is not type(right):
        return False
    if isinstance(left, float):
        return struct.pack(">d", left) == struct.pack(">d", right)
    if isinstance(left, dict):
        return same(_entries(left), _entries(right))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def _entries(value: dict[Any, Any]) -> list[Any]:
    return [entry for pair in value.items() for entry in pair]


def _named(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """The same strategy with a short repr: hypothesis writes out whole trees of them, and warns."""

    @st.composite
    def values(draw: st.DrawFn) -> Any:
        return draw(strategy)

    return values()


def _integers(kind: type[int], low: int, high: int) -> st.SearchStrategy[Any]:
    edges = [x for x in (low, high, 0, 1, 127, 128, 255, 256, -128, -129) if low <= x <= high]
    return (st.sampled_from(edges) | st.integers(low, high)).map(kind)


def _nan32(bits: int) -> Float:
    return Float(struct.unpack(">d", struct.pack(">Q", 0x7FF << 52 | bits << 29))[0])


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.just("ß" * 200)
SYMBOLS = st.text(st.characters(max_codepoint=127), max_size=12).map(Symbol) | st.just(Symbol("s" * 300))
BINARY = st.binary(max_size=12) | st.just(b"b" * 300)
KINDS: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "ubyte": _integers(Ubyte, 0, 2**8 - 1),
    "ushort": _integers(Ushort, 0, 2**16 - 1),
    "uint": _integers(Uint, 0, 2**32 - 1),
    "ulong": _integers(Ulong, 0, 2**64 - 1),
    "byte": _integers(Byte, -(2**7), 2**7 - 1),
    "short": _integers(Short, -(2**15), 2**15 - 1),
    "int": _integers(Int, -(2**31), 2**31 - 1),
    "long": _integers(Long, -(2**63), 2**63 - 1),
    "timestamp": _integers(Timestamp, -(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False).map(Float) | st.integers(1, 2**23 - 1).map(_nan32),
    "double": st.floats(),
    "decimal32": st.binary(min_size=4, max_size=4).map(Decimal32),
    "decimal64": st.binary(min_size=8, max_size=8).map(Decimal64),
    "decimal128": st.binary(min_size=16, max_size=16).map(Decimal128),
    "char": st.characters(exclude_categories=["Cs"]).map(Char),
    "uuid": st.uuids(),
    "binary": BINARY,
    "string": TEXT,
    "symbol": SYMBOLS,
}
SCALARS = _named(st.one_of(*KINDS.values()))


def _arrays(items: st.SearchStrategy[Any], kind: str) -> st.SearchStrategy[Array]:
    descriptors = st.lists(SYMBOLS | KINDS["ulong"], max_size=2).map(tuple)
    return st.builds(Array, st.just(kind), st.lists(items, max_size=4).map(tuple), descriptors)


SCALAR_ARRAYS = _named(st.one_of(*(_arrays(items, kind) for kind, items in KINDS.items())))


def _wider(narrower: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    values = _named(narrower)
    lists = st.lists(values, max_size=4)
    maps = st.dictionaries(SYMBOLS | TEXT | KINDS["ulong"] | _keys(values), values, max_size=4)
    described = st.builds(Described, SYMBOLS | KINDS["ulong"], values)
    compound_arrays = _arrays(lists, "list") | _arrays(maps, "map") | _arrays(SCALAR_ARRAYS, "array")
    return lists | maps | described | SCALAR_ARRAYS | compound_arrays


def _keys(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.lists(values, max_size=2).map(lambda key: MapKey(key, encode(key)))


VALUES = _named(st.recursive(SCALARS, _wider, max_leaves=8))

# -- messages ------------------------------------------------------------------------------------------

_SYMBOLIC = {
    sections.HEADER: "amqp:header:list",
    sections.DELIVERY_ANNOTATIONS: "amqp:delivery-annotations:map",
    sections.MESSAGE_ANNOTATIONS: "amqp:message-annotations:map",
    sections.PROPERTIES: "amqp:properties:list",
    sections.APPLICATION_PROPERTIES: "amqp:application-properties:map",
    sections.DATA: "amqp:data:binary",
    sections.AMQP_SEQUENCE: "amqp:amqp-sequence:list",
    sections.AMQP_VALUE: "amqp:amqp-value:*",
    sections.FOOTER: "amqp:footer:map",
}


def _wide(encoded: bytes) -> bytes:
    """The same variable-width or compound value with 32-bit sizes, legal though not the shortest."""
    code = encoded[0]
    if code in (0xC0, 0xC1):
        return struct.pack(">BII", code + 0x10, len(encoded) + 1, encoded[2]) + encoded[3:]
    if code in (0xA0, 0xA1, 0xA3):
        return struct.pack(">BI", code + 0x10, encoded[1]) + encoded[2:]
    return encoded


def _wide_inside(encoded: bytes) -> bytes:
    """The same list or map with every item in its widest form."""
    if encoded == b"\x45":
        return b"\xd0\x00\x00\x00\x04\x00\x00\x00\x00"
    if encoded[0] not in (0xC0, 0xC1):
        return _wide(encoded)
    items, at = b"", 3
    while at < len(encoded):
        start, at = at, skip(encoded, at)
        items += _widest(encoded[start:at])
    return struct.pack(">BII", encoded[0] + 0x10, len(items) + 4, encoded[2]) + items


def _widest(encoded: bytes) -> bytes:
    long, number = {0x53: 0x80, 0x44: 0x80, 0x52: 0x70, 0x43: 0x70}, encoded[1:] or b"\x00"
    if encoded[0] in (0x41, 0x42):
        return bytes((0x56, encoded[0] == 0x41))
    if (code := long.get(encoded[0])) is not None:
        return bytes((code,)) + number.rjust(8 if code == 0x80 else 4, b"\x00")
    return _wide(encoded)


@st.composite
def _sections(draw: st.DrawFn, code: int, values: st.SearchStrategy[Any]) -> bytes:
    """A section in any of the forms a peer may send: four descriptors, two sizes, items short or wide."""
    short, full = bytes((0x53, code)), b"\x80" + code.to_bytes(8, "big")
    symbol = encode(Symbol(_SYMBOLIC[code]))
    descriptor = draw(st.sampled_from([short, short, full, symbol, _wide(symbol)]))
    value = encode(draw(values))
    form = draw(st.sampled_from([bytes, bytes, _wide, _wide_inside]))
    return b"\x00" + descriptor + form(value)


MESSAGE_IDS = st.none() | TEXT | KINDS["ulong"] | st.uuids() | BINARY
_PROPERTY_FIELDS: list[st.SearchStrategy[Any]] = [
    MESSAGE_IDS,
    st.none() | BINARY,
    st.none() | TEXT,
    st.none() | TEXT,
    st.none() | TEXT,
    MESSAGE_IDS,
    st.none() | SYMBOLS,
    st.none() | SYMBOLS,
    st.none() | KINDS["timestamp"],
    st.none() | KINDS["timestamp"],
    st.none() | TEXT,
    st.none() | KINDS["uint"],
    st.none() | TEXT,
]
_HEADER_FIELDS: list[st.SearchStrategy[Any]] = [
    st.none() | st.booleans(),
    st.none() | KINDS["ubyte"],
    st.none() | KINDS["uint"],
    st.none() | st.booleans(),
    st.none() | KINDS["uint"],
]


def _fields(kinds: list[st.SearchStrategy[Any]]) -> st.SearchStrategy[list[Any]]:
    return st.integers(0, len(kinds)).flatmap(lambda n: st.tuples(*kinds[:n])).map(list)


ANNOTATIONS = st.dictionaries(SYMBOLS.filter(bool) | KINDS["ulong"], SCALARS | SCALAR_ARRAYS, max_size=4)
APPLICATION_PROPERTIES = st.dictionaries(TEXT, SCALARS, max_size=4)
HEADER_SECTIONS = _sections(sections.HEADER, _fields(_HEADER_FIELDS))
DA_SECTIONS = _sections(sections.DELIVERY_ANNOTATIONS, ANNOTATIONS)
MA_SECTIONS = _sections(sections.MESSAGE_ANNOTATIONS, ANNOTATIONS)
PROPERTIES_SECTIONS = _sections(sections.PROPERTIES, _fields(_PROPERTY_FIELDS))
AP_SECTIONS = _sections(sections.APPLICATION_PROPERTIES, APPLICATION_PROPERTIES)
FOOTER_SECTIONS = _sections(sections.FOOTER, ANNOTATIONS)
_DATA = _sections(sections.DATA, BINARY)
_SEQUENCE = _sections(sections.AMQP_SEQUENCE, st.lists(VALUES, max_size=3))
BODIES = st.one_of(
    _DATA,
    st.lists(_DATA, min_size=2, max_size=3).map(b"".join),
    st.lists(_SEQUENCE, min_size=1, max_size=3).map(b"".join),
    _sections(sections.AMQP_VALUE, VALUES),
    st.just(b""),
)


def _optional(section: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.just(b"") | section


BARE_MESSAGES = st.tuples(
    _optional(PROPERTIES_SECTIONS), _optional(AP_SECTIONS), BODIES, _optional(FOOTER_SECTIONS)
).map(b"".join)
MESSAGE_PARTS = st.tuples(
    _optional(HEADER_SECTIONS), _optional(DA_SECTIONS), _optional(MA_SECTIONS), BARE_MESSAGES
)
"""(header, delivery annotations, message annotations, everything from the bare message on), encoded."""
MESSAGES = MESSAGE_PARTS.map(b"".join)


@st.composite
def mutated(draw: st.DrawFn, valid: st.SearchStrategy[bytes]) -> bytes:
    """Valid bytes with a few overwritten, cut, inserted or repeated."""
    data = bytearray(draw(valid))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(data)))
        cut = draw(st.integers(0, 2))
        data[at : at + cut] = draw(st.binary(max_size=2))
    return bytes(data)


def result_or_condition(call: Callable[..., Any], *args: Any) -> Any:
    """What the call returns or the condition of its `AmqpError`; any other exception fails the test."""
    try:
        return call(*args)
    except AmqpError as error:
        return error.condition
