"""Finds the decodable entries of malformed maps, in one walk for all filters.

A filter does not match a message in which a field that it names cannot be decoded. The readers of single filters and of
sets of filters (`readers`) agree on which fields those are; this module finds them for all names at once.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from gateway.amqp.codec.codec import Value, skip
from gateway.amqp.codec.decoder import ASK_SKIP, LIMITS, STEPS
from gateway.amqp.message.bounds import ENTRIES
from gateway.errors import AmqpError

MALFORMED: Final = (AmqpError, IndexError, struct.error, UnicodeDecodeError)
"""The errors of a reader for malformed bytes: the message then matches no filter that names the field."""
Slots = Mapping[bytes, int]
Decoders = Sequence[Callable[[bytes, int, int], tuple[Value, int]]]
_DEPTH: Final = LIMITS.depth - 1
_STRING8, _SYMBOL8 = 0xA1, 0xA3


class _SalvagedEntries:
    """Collects the values of entries with a slot, the first of each name, and the slots of malformed ones."""

    def __init__(self, data: bytes, slots: Slots, decoders: Decoders, values: dict[int, Value]) -> None:
        self.seen: Final = set[int]()
        self.bad: Final = set[int]()
        self._data, self._slots, self._decoders, self._values = data, slots, decoders, values

    def entry(self, position: int, after: int, end: int) -> None:
        """Add the entry with its key at `position` and its value at `after`, in a map that ends at `end`."""
        slot = self._slots.get(self._data[position:after])
        if slot is None or slot in self.seen:
            return
        self.seen.add(slot)
        try:
            value, stop = self._decoders[self._data[after]](self._data, after + 1, _DEPTH)
        except MALFORMED:
            self.bad.add(slot)
            return
        if stop > end:
            self.bad.add(slot)
        else:
            self._values[slot] = value


def short_map(
    data: bytes, position: int, end: int, slots: Slots, decoders: Decoders, values: dict[int, Value]
) -> set[int]:
    """Put the entries that can be decoded into `values`; returns the slots of malformed entries and all after them."""
    found = _SalvagedEntries(data, slots, decoders, values)
    try:
        while position < end:
            if data[position] == _STRING8 or data[position] == _SYMBOL8:
                after = position + 2 + data[position + 1]
            else:
                after = skip(data, position)
            step = STEPS[data[after]]
            found.entry(position, after, end)
            position = after + (step or 2 + data[after + 1]) if step != ASK_SKIP else skip(data, after)
    except MALFORMED:
        position = end + 1
    return found.bad if position <= end else found.bad | (set(slots.values()) - found.seen)


def long_map(
    data: bytes, position: int, end: int, count: int, slots: Slots, decoders: Decoders, values: dict[int, Value]
) -> set[int]:
    """The same for a long map, which readers always walk to its end: if that fails, all its entries are malformed."""
    found = _SalvagedEntries(data, slots, decoders, values)
    if count >> 1 > ENTRIES:
        return set(slots.values())
    try:
        for _ in range(count >> 1):
            after = skip(data, position)
            found.entry(position, after, len(data))
            position = skip(data, after)
    except MALFORMED:
        position = -1
    return found.bad if position == end else set(slots.values())
