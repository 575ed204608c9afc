"""The AMQP 1.0 type system (part 1): `encode`, `decode`, `decode_all`, `skip` and the value types.

It re-exports `types`, `encoder` and `decoder`, so that other packages import from one place.
"""

from __future__ import annotations

from gateway.amqp.codec.decoder import LIMITS, Limits, decode, decode_all, malformed, skip
from gateway.amqp.codec.encoder import ZERO_WIDTH_ITEMS, encode, encode_binary, encode_items, encode_list, encode_map
from gateway.amqp.codec.types import (
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
    Value,
    ValueList,
    ValueMap,
)

__all__ = [
    "LIMITS",
    "ZERO_WIDTH_ITEMS",
    "Array",
    "Byte",
    "Char",
    "Decimal32",
    "Decimal64",
    "Decimal128",
    "Described",
    "Float",
    "Int",
    "Limits",
    "Long",
    "MapKey",
    "Short",
    "Symbol",
    "Timestamp",
    "Ubyte",
    "Uint",
    "Ulong",
    "Ushort",
    "Value",
    "ValueList",
    "ValueMap",
    "decode",
    "decode_all",
    "encode",
    "encode_binary",
    "encode_items",
    "encode_list",
    "encode_map",
    "malformed",
    "skip",
]
