"""Events that are done although earlier ones are not: what a stored position alone cannot say (decision 105). Pure.

A position says that all events before it are done. A transaction may settle a later event, and be committed while an
earlier one is still open: that later one must not come again. So the offsets that are done after the position are
stored with it, as the metadata of the offset that Kafka commits with the transaction.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple, TypeAlias

Ranges: TypeAlias = tuple[range, ...]
"""Offsets in order: no two ranges touch each other."""

MOST: Final = 4096
"""Characters of metadata that a broker takes (`offset.metadata.max.bytes`)."""
_MARK: Final = "scopegate-done:"
"""How the metadata begin; any others are somebody else's."""
_BITS: Final = 63
"""Bits of an offset."""
_LARGEST: Final = 1 << 20
"""Bytes of the numbers in metadata."""


class StoredPosition(NamedTuple):
    """The first event of a partition that is not done, and later ones that are."""

    offset: int
    ahead: Ranges = ()


NO_POSITION: Final = StoredPosition(0)


def ranges(found: Iterable[range]) -> Ranges:
    """The same offsets, in order."""
    made: list[range] = []
    for each in sorted((each for each in found if each), key=lambda each: each.start):
        if made and each.start <= made[-1].stop:
            made[-1] = range(made[-1].start, max(made[-1].stop, each.stop))
        else:
            made.append(each)
    return tuple(made)


def between(found: Ranges, first: int, end: int) -> Ranges:
    """Those of the offsets from `first` on that are before `end`."""
    cut = (range(max(each.start, first), min(each.stop, end)) for each in found)
    return tuple(each for each in cut if each)


def has(found: Ranges, offset: int) -> bool:
    """Whether an offset is among them."""
    at = bisect_right(found, offset, key=lambda each: each.start)
    return at > 0 and offset < found[at - 1].stop


def written(position: StoredPosition) -> str | None:
    """The metadata of a position; None: too many events before and after others that are not done."""
    if not position.ahead:
        return ""
    numbers, at = bytearray(), position.offset
    for each in position.ahead:
        numbers += _number(each.start - at) + _number(len(each))
        at = each.stop
    text = _MARK + base64.b64encode(zlib.compress(numbers)).decode()
    return text if len(text) <= MOST else None


def read(offset: int, metadata: str | None) -> StoredPosition:
    """The position of an offset with metadata; what is not ours says nothing."""
    if not metadata or not metadata.startswith(_MARK):
        return StoredPosition(offset)
    try:
        packed = base64.b64decode(metadata.removeprefix(_MARK), validate=True)
        numbers = list(_numbers(zlib.decompressobj().decompress(packed, _LARGEST)))
    except (binascii.Error, zlib.error):
        return StoredPosition(offset)
    found, at = list[range](), offset
    for gap, length in zip(numbers[::2], numbers[1::2], strict=False):
        found.append(range(at + gap, at + gap + length))
        at += gap + length
    return StoredPosition(offset, ranges(found))


def _number(number: int) -> bytes:
    """Seven bits in each byte, the lowest ones first."""
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    made.append(number)
    return bytes(made)


def _numbers(data: bytes) -> Iterator[int]:
    """The numbers, up to one that is no offset: others may write metadata like ours, and large numbers take long."""
    number = shift = 0
    for each in data:
        if shift > _BITS:
            return
        number |= (each & 127) << shift
        shift += 7
        if each < 128:
            yield number
            number = shift = 0
