"""The partition that Event Hubs chooses for a key: Jenkins' lookup3, folded to 16 bits. Pure."""

from __future__ import annotations

import struct
from typing import Final

_MASK: Final = 0xFFFFFFFF
_BLOCK: Final = 12


def partition_of(key: str, partitions: int) -> int:
    """The partition of a key in an event hub of `partitions` partitions."""
    b, c = _lookup3(key.encode("utf-8", "surrogatepass"))
    folded = (c ^ b) & 0xFFFF
    signed = folded - 0x10000 if folded & 0x8000 else folded
    return abs(signed) % partitions


def _rotated(value: int, by: int) -> int:
    return ((value << by) | (value >> (32 - by))) & _MASK


def _lookup3(data: bytes) -> tuple[int, int]:
    """The two results of hashlittle2 with seeds of 0."""
    a = b = c = (0xDEADBEEF + len(data)) & _MASK
    whole = max(0, (len(data) - 1) // _BLOCK) * _BLOCK
    for at in range(0, whole, _BLOCK):
        x, y, z = struct.unpack_from("<III", data, at)
        a, b, c = _mixed((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)
    if not data:
        return b, c
    x, y, z = struct.unpack("<III", data[whole:].ljust(_BLOCK, b"\0"))
    return _final((a + x) & _MASK, (b + y) & _MASK, (c + z) & _MASK)


def _mixed(a: int, b: int, c: int) -> tuple[int, int, int]:
    a = ((a - c) & _MASK) ^ _rotated(c, 4)
    c = (c + b) & _MASK
    b = ((b - a) & _MASK) ^ _rotated(a, 6)
    a = (a + c) & _MASK
    c = ((c - b) & _MASK) ^ _rotated(b, 8)
    b = (b + a) & _MASK
    a = ((a - c) & _MASK) ^ _rotated(c, 16)
    c = (c + b) & _MASK
    b = ((b - a) & _MASK) ^ _rotated(a, 19)
    a = (a + c) & _MASK
    c = ((c - b) & _MASK) ^ _rotated(b, 4)
    b = (b + a) & _MASK
    return a, b, c


def _final(a: int, b: int, c: int) -> tuple[int, int]:
    c = ((c ^ b) - _rotated(b, 14)) & _MASK
    a = ((a ^ c) - _rotated(c, 11)) & _MASK
    b = ((b ^ a) - _rotated(a, 25)) & _MASK
    c = ((c ^ b) - _rotated(b, 16)) & _MASK
    a = ((a ^ c) - _rotated(c, 4)) & _MASK
    b = ((b ^ a) - _rotated(a, 14)) & _MASK
    c = ((c ^ b) - _rotated(b, 24)) & _MASK
    return b, c
