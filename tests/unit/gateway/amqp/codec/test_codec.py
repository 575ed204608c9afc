"""Known encodings (AMQP 1.0 part 1, 1.6), limits and hostile values."""

from __future__ import annotations

import struct
import time
import uuid

import pytest

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
    Limits,
    Long,
    MapKey,
    Short,
    Symbol,
    Timestamp,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    decode,
    decode_all,
    encode,
    encode_list,
    encode_map,
)
from gateway.errors import DECODE_ERROR, AmqpError

SHORTEST = [
    (None, "40"),
    (True, "41"),
    (False, "42"),
    (Ubyte(255), "50ff"),
    (Ushort(1), "600001"),
    (Uint(0), "43"),
    (Uint(255), "52ff"),
    (Uint(256), "7000000100"),
    (Ulong(0), "44"),
    (Ulong(1), "5301"),
    (Ulong(2**64 - 1), "80ffffffffffffffff"),
    (Byte(-1), "51ff"),
    (Short(-2), "61fffe"),
    (Int(-128), "5480"),
    (Int(128), "7100000080"),
    (Long(127), "557f"),
    (7, "5507"),
    (-(2**63), "818000000000000000"),
    (Float(1.5), "723fc00000"),
    (1.5, "823ff8000000000000"),
    (Decimal32(b"abcd"), "7461626364"),
    (Decimal64(b"abcdefgh"), "846162636465666768"),
    (Decimal128(bytes(16)), "94" + "00" * 16),
    (Char("ß"), "73000000df"),
    (Timestamp(1), "830000000000000001"),
    (uuid.UUID(int=1), "98" + "00" * 15 + "01"),
    (b"ab", "a0026162"),
    (bytes(256), "b000000100" + "00" * 256),
    ("ß", "a102c39f"),
    (Symbol("a"), "a30161"),
    ([], "45"),
    ([None], "c0020140"),
    ({}, "c10100"),
    ({Symbol("a"): 1}, "c10602a301615501"),
    (Described(Ulong(0x24), []), "00532445"),
    (Array("symbol", ("a", "bc")), "e00702a301610262 63".replace(" ", "")),
    (Array("ulong", (Ulong(1), Ulong(256))), "e01202800000000000000001" + "0000000000000100"),
    (Array("boolean", ()), "e0020056"),
]


@pytest.mark.parametrize(("value", "wire"), SHORTEST, ids=lambda item: str(item)[:24])
def test_shortest_form(value, wire):
    assert encode(value).hex() == wire
    assert type(decode_all(bytes.fromhex(wire))) in (type(value), Long)


@pytest.mark.parametrize(
    ("wire", "value"),
    [
        ("5601", True),
        ("5600", False),
        ("7000000000", Uint(0)),
        ("8000000000000000 01".replace(" ", ""), Ulong(1)),
        ("d00000000400000000", []),
        ("b10000000161", "a"),
        ("e0020341", Array("boolean", (True, True, True))),
        ("f00000000700000001a30161", Array("symbol", ("a",))),
    ],
)
def test_longer_forms_are_read(wire, value):
    decoded = decode_all(bytes.fromhex(wire))
    assert decoded == value
    assert type(decoded) is type(value)


def test_signalling_nan_of_a_float_keeps_its_payload():
    wire = bytes.fromhex("72ff800001")
    assert encode(decode_all(wire)) == wire


@pytest.mark.parametrize(
    "pairs",
    [
        [(1, "a"), (True, "b"), (1.0, "c"), (Ulong(1), "d")],
        [(Symbol("k"), 1), ("k", 2), (Char("k"), 3)],
        [(0.0, 1), (-0.0, 2)],
        [([1], 1), ({"a": 1}, 2), ([2], 3)],
    ],
)
def test_keys_python_calls_equal_are_all_kept(pairs):
    wire = encode_map([(encode(key), encode(value)) for key, value in pairs])
    decoded = decode_all(wire)
    assert len(decoded) == len(pairs)
    assert encode(decoded) == wire


def test_the_first_of_equal_keys_stays_plain():
    decoded = decode_all(encode_map([(encode(Symbol("k")), encode(1)), (encode("k"), encode(2))]))
    assert decoded == {"k": 1, MapKey("k", encode("k")): 2}


@pytest.mark.parametrize("key", [Symbol("k"), [1]])
def test_the_same_key_twice_is_refused(key):
    with pytest.raises(AmqpError, match="same key twice"):
        decode_all(encode_map([(encode(key), b"\x40")] * 2))


def test_a_key_twice_in_two_encodings_is_refused():
    with pytest.raises(AmqpError, match="same key twice"):
        decode_all(encode_map([(b"\x53\x01", b"\x40"), (b"\x80" + bytes(7) + b"\x01", b"\x40")]))


MALFORMED = {
    "nothing": b"",
    "unknown constructor": b"\x3f",
    "unknown constructor in an array": b"\xe0\x02\x00\x3f",
    "cut fixed": b"\x80\x00",
    "cut string": b"\xa1\x05ab",
    "cut string size": b"\xb1\x00",
    "cut uuid": b"\x98\x00",
    "bad utf-8": b"\xa1\x01\xff",
    "surrogate in a string": b"\xa1\x03\xed\xa0\x80",
    "non-ascii symbol": b"\xa3\x01\xff",
    "boolean 2": b"\x56\x02",
    "char above unicode": b"\x73\x00\x11\x00\x00",
    "surrogate char": b"\x73\x00\x00\xd8\x00",
    "list size over the end": b"\xc0\x10\x01\x40",
    "list size below its items": b"\xc0\x02\x02\x40\x40",
    "list size above its items": b"\xc0\x03\x01\x40\x40",
    "list size zero": b"\xc0\x00\x00",
    "list32 size below its own count": b"\xd0\x00\x00\x00\x03\x00\x00\x00\x00",
    "item over the end of its list": b"\xc0\x03\x01\xa1\x05abcde",
    "odd map": b"\xc1\x02\x01\x40",
    "described without value": b"\x00\x53\x01",
    "bytes after the value": b"\x40\x40",
    "array without constructor": b"\xe0\x01\x00",
}


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
def test_malformed(data):
    with pytest.raises(AmqpError) as caught:
        decode_all(data)
    assert caught.value.condition == DECODE_ERROR


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">BIIB", 0xF0, 5, 2**32 - 1, 0x40) + bytes(8),
        struct.pack(">BIIB", 0xF0, 5, 2**32 - 1, 0x45),
        struct.pack(">BIIB", 0xF0, 5, 2**32 - 1, 0x50),
        struct.pack(">BII", 0xD0, 4, 2**32 - 1),
        struct.pack(">BII", 0xD1, 4, 2**32 - 2),
    ],
    ids=["nulls", "empty lists", "ubytes", "list", "map"],
)
def test_a_huge_count_in_few_bytes_fails_fast(data):
    started = time.process_time()
    with pytest.raises(AmqpError, match="more items than bytes"):
        decode(data)
    assert time.process_time() - started < 1


@pytest.mark.parametrize(
    "level",
    [
        lambda inner: encode_list([inner]),
        lambda inner: b"\x00\x53\x01" + inner,
        lambda inner: b"\x00" + inner + b"\x40",
    ],
    ids=["lists", "described", "descriptors"],
)
def test_nesting_is_limited(level):
    data = b"\x40"
    for _ in range(32):
        data = level(data)
    decode_all(data)
    with pytest.raises(AmqpError, match="nested"):
        decode_all(level(data))
    for _ in range(3000):
        data = level(data)
    with pytest.raises(AmqpError):
        decode_all(data)


def test_nested_arrays_count_as_levels():
    value = Array("null", ())
    for _ in range(40):
        value = Array("array", (value,))
    with pytest.raises(AmqpError, match="nested"):
        decode_all(encode(value))


def test_size_is_limited():
    data = encode(bytes(1000))
    assert decode(data + bytes(1000), limits=Limits(size=1005))[1] == 1005
    with pytest.raises(AmqpError, match="larger"):
        decode(data, limits=Limits(size=1004))


@pytest.mark.parametrize(
    "value",
    [
        Ubyte(256),
        Ulong(-1),
        Uint(2**32),
        2**63,
        Float(1e300),
        Char("ab"),
        Decimal32(b"abc"),
        "\ud800",
        Symbol("ß"),
    ],
)
def test_what_does_not_fit_its_type_is_a_value_error(value):
    with pytest.raises(ValueError):  # noqa: PT011  the type is the contract, the text differs
        encode(value)


@pytest.mark.parametrize("value", [Array("nonsense", ()), Array("null", (None,) * 257), Array("null", (1,))])
def test_impossible_arrays_are_a_value_error(value):
    with pytest.raises(ValueError, match=r"null|nonsense"):
        encode(value)


def test_what_has_no_amqp_type_is_a_type_error():
    with pytest.raises(TypeError, match="set"):
        encode([set()])
