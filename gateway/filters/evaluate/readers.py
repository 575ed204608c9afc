"""Finds fields of encoded messages without decoding the others: the innermost loops of the filters.

Map entries are skipped by their constructors and sizes (AMQP 1.0 part 1, 1.2), and keys are compared as encoded bytes.
Only fields that a filter names are decoded, integers as plain `int`, because filters ignore their width. For malformed
bytes the functions raise `MALFORMED` or return wrong values, but never read beyond the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from gateway.amqp.codec.codec import Value, malformed, skip
from gateway.amqp.codec.decoder import ASK_SKIP, LIMITS, READERS, STEPS
from gateway.amqp.message.bounds import ENTRIES, FIELDS
from gateway.amqp.message.section_index import AMQP_VALUE, SectionOffsets, descriptor, opened
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.filters.evaluate.salvage import MALFORMED, long_map, short_map
from gateway.filters.predicate import number_in

Encoded = tuple[bytes, SectionOffsets]
"""An encoded message, and the offsets of its sections."""


class Absent:
    """The value of an absent field: like null to everything but `Exists` and the maps of property filters."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()
class Slotted(dict[int, Value]):
    """The values of fields by slot; missing ones are `ABSENT`."""

    __slots__ = ()

    def __missing__(self, slot: int) -> Absent:
        return ABSENT


_V = TypeVar("_V", list[Value], Slotted)
_Read = Callable[[Encoded], Sequence[Value]]
_LONGEST_KEY: Final = 1 << 16
"""The size of a key in bytes above which no filter can name it, because no filter expression is that long."""
_MAX_ULONG: Final = (1 << 64) - 1
_DEPTH: Final = LIMITS.depth - 1
_STRING8, _SYMBOL8, _NULL, _SMALL_ULONG, _MAP8, _MAP32 = 0xA1, 0xA3, 0x40, 0x53, 0xC1, 0xD1


def list_reader(place: int, slots: Mapping[int, int], blank: list[Value]) -> _Read:
    """A reader of the list at `layout[place]`: item i goes to index `slots[i]`; for null, `blank` has the value."""
    last = max(slots, default=-1)

    def read(source: Encoded) -> Sequence[Value]:
        data, layout = source
        start = layout[place]
        if start == layout[place + 1]:
            return blank
        values = blank.copy()
        position, end, count = opened(data, start)
        readers = _VALUES if end - position <= FIELDS else _SMALL_VALUES
        for index in range(min(count, last + 1)):
            slot = slots.get(index)
            if slot is None or data[position] == _NULL:
                position = skip(data, position)
            else:
                values[slot], position = readers[data[position]](data, position + 1, _DEPTH)
        if position > end:
            raise malformed("fields do not fill their section")
        return values

    return read


def map_reader(place: int, names: tuple[str, ...]) -> _Read:
    """A reader of the map at `layout[place]`: the values of `names`; for a repeated name, the first value."""
    slots, blank, wanted = _slots(names), [ABSENT] * len(names), len(names)
    find, find_few, after = _finder(slots), _few_finder(slots), place + 1

    def read(source: Encoded) -> Sequence[Value]:
        data, layout = source
        start = layout[place]
        if start == layout[after]:
            return blank
        if data[start + 1] == _SMALL_ULONG and data[start + 3] == _MAP8:  # the form that nearly all clients send
            return find(data, start + 6, start + 5 + data[start + 4], blank.copy(), wanted)
        position, end, count = opened(data, start)
        if end - position > FIELDS:
            return find_few(data, position, end, count, blank.copy())
        return find(data, position, end, blank.copy(), wanted)

    return read


def value_reader(names: tuple[str, ...]) -> _Read:
    """A reader of an amqp-value body: the entries of a map; if the value is not a map, all fields are absent."""
    slots, blank, wanted = _slots(names), [ABSENT] * len(names), len(names)
    find, find_few = _finder(slots), _few_finder(slots)

    def read(source: Encoded) -> Sequence[Value]:
        found = _value_map(source)
        if found is None:
            return blank
        position, end, count = found
        if end - position > FIELDS:
            return find_few(source[0], position, end, count, blank.copy())
        return find(source[0], position, end, blank.copy(), wanted)

    return read


def _value_map(source: Encoded) -> tuple[int, int, int] | None:
    """Where the entries of an amqp-value body with a map begin and end, and the number of keys and values."""
    data, layout = source
    if layout.body == layout.footer:
        return None
    code, position = descriptor(data, layout.body)
    if code != AMQP_VALUE or data[position] not in (_MAP8, _MAP32):
        return None
    return opened(data, layout.body)


class MapEntries:
    """The entries of a map that a set of filters names; names are added and removed one by one.

    The cost of a message grows with its number of entries, not with the number of names.
    """

    def __init__(self, place: int | None) -> None:
        """`place`: the map at `layout[place]`; None: an amqp-value body."""
        self._place: Final = place
        self._slots: Final[dict[bytes, int]] = {}
        self._find: Final = _finder(self._slots)
        self._find_few: Final = _few_finder(self._slots)
        self._names = 0

    def add(self, name: str, slot: int) -> None:
        """Begin to read the entry `name` into `slot`."""
        self._names += 1
        self._slots.update((key, slot) for key in _keys(name))

    def remove(self, name: str) -> None:
        """Stop reading the entry `name`."""
        self._names -= 1
        for key in _keys(name):
            del self._slots[key]

    def read(self, source: Encoded, values: Slotted) -> None:
        """Put the values of present entries into `values`; raises MALFORMED if one cannot be decoded."""
        data, layout = source
        place = self._place
        if place is None:
            found = _value_map(source)
            if found is not None:
                self._look(data, *found, values)
            return
        start = layout[place]
        if start == layout[place + 1]:
            return
        if data[start + 1] == _SMALL_ULONG and data[start + 3] == _MAP8:
            self._find(data, start + 6, start + 5 + data[start + 4], values, self._names)
        else:
            self._look(data, *opened(data, start), values)

    def salvage(self, source: Encoded, values: Slotted) -> set[int]:
        """As `read`, for malformed messages: returns the slots of the entries that cannot be decoded."""
        data, layout = source
        place = self._place
        try:
            if place is None:
                found = _value_map(source)
            else:
                found = None if layout[place] == layout[place + 1] else _opened(data, layout[place])
        except MALFORMED:
            return set(self._slots.values())
        if found is None:
            return set()
        position, end, count = found
        if end - position > FIELDS:
            return long_map(data, position, end, count, self._slots, _SMALL_VALUES, values)
        return short_map(data, position, end, self._slots, _VALUES, values)

    def _look(self, data: bytes, position: int, end: int, count: int, values: Slotted) -> None:
        if end - position > FIELDS:
            self._find_few(data, position, end, count, values)
        else:
            self._find(data, position, end, values, self._names)


def _opened(data: bytes, start: int) -> tuple[int, int, int]:
    """Where the entries of the map at `start` begin and end; opens the usual encoding as `MapEntries.read` does."""
    if data[start + 1] == _SMALL_ULONG and data[start + 3] == _MAP8:
        return start + 6, start + 5 + data[start + 4], data[start + 5]
    return opened(data, start)


def _slots(names: tuple[str, ...]) -> dict[bytes, int]:
    return {key: slot for slot, name in enumerate(names) for key in _keys(name)}


def _finder(slots: dict[bytes, int]) -> Callable[[bytes, int, int, _V, int], _V]:
    """A function that walks the entries of a map until `left` are found; `slots` may change between two walks."""
    slot_of = slots.get

    def find(data: bytes, position: int, end: int, values: _V, left: int) -> _V:
        while position < end:
            if data[position] == _STRING8 or data[position] == _SYMBOL8:  # testing with a tuple costs more
                after = position + 2 + data[position + 1]
            else:
                after = skip(data, position)
            slot = slot_of(data[position:after])
            code = data[after]
            if slot is None or values[slot] is not ABSENT:
                step = STEPS[code]
                position = after + (step or 2 + data[after + 1]) if step != ASK_SKIP else skip(data, after)
                continue
            if code == _STRING8:
                position = after + 2 + data[after + 1]
                values[slot] = data[after + 2 : position].decode()
            else:
                values[slot], position = _VALUES[code](data, after + 1, _DEPTH)
            left -= 1
            if not left:
                break
        if position > end:
            raise malformed("entries do not fill their section")
        return values

    return find


def _few_finder(slots: dict[bytes, int]) -> Callable[[bytes, int, int, int, _V], _V]:
    """The same for a map of more than `FIELDS` bytes, where entries are limited in number and lists in size."""

    def find(data: bytes, position: int, end: int, count: int, values: _V) -> _V:
        if count >> 1 > ENTRIES:
            raise _unread(f"a section of {count >> 1} entries")
        for _ in range(count >> 1):
            after = skip(data, position)
            slot = slots.get(data[position:after]) if after - position < _LONGEST_KEY else None
            if slot is None or values[slot] is not ABSENT:
                position = skip(data, after)
            else:
                values[slot], position = _SMALL_VALUES[data[after]](data, after + 1, _DEPTH)
        if position != end:
            raise malformed("entries do not fill their section")
        return values

    return find


def _unread(what: str) -> AmqpError:
    UNREAD.sections += 1
    return AmqpError(RESOURCE_LIMIT_EXCEEDED, f"{what} exceeds the limits of filters")


class _Unread:
    """How often a filter matched nothing because a section exceeded its limits, since the process started."""

    sections = 0


UNREAD: Final = _Unread()


def _keys(name: str) -> list[bytes]:
    """All encodings of a name as a map key."""
    number = number_in(name)
    if number is not None:
        short = [b"\x53" + bytes((number,))] if number < 256 else []
        zero = [b"\x44"] if number == 0 else []
        return [b"\x80" + (number & _MAX_ULONG).to_bytes(8, "big"), *short, *zero]
    raw = name.encode("utf-8", "surrogatepass")
    long = [bytes((code,)) + len(raw).to_bytes(4, "big") + raw for code in (0xB1, 0xB3)]
    return long if len(raw) > 255 else [bytes((code, len(raw))) + raw for code in (_STRING8, _SYMBOL8)] + long


def _small(data: bytes, position: int, depth: int) -> tuple[int, int]:
    value = data[position]
    return value - ((value & 0x80) << 1), position + 1


def _whole(layout: str) -> Callable[[bytes, int, int], tuple[Value, int]]:
    form = struct.Struct(layout)
    unpack, size = form.unpack_from, form.size
    return lambda data, position, depth: (unpack(data, position)[0], position + size)


def _byte(data: bytes, position: int, depth: int) -> tuple[int, int]:
    return data[position], position + 1


_VALUES: Final = list(READERS)
for _code, _form in {0x60: ">H", 0x61: ">h", 0x70: ">I", 0x71: ">i", 0x80: ">Q", 0x81: ">q"}.items():
    _VALUES[_code] = _whole(_form)
for _code in (0x50, 0x52, 0x53):
    _VALUES[_code] = _byte
for _code in (0x51, 0x54, 0x55):
    _VALUES[_code] = _small


def _bounded(code: int) -> Callable[[bytes, int, int], tuple[Value, int]]:
    """A reader of lists, maps and arrays in a long section, which refuses values of more than `FIELDS` bytes."""
    read = _VALUES[code]

    def bounded(data: bytes, position: int, depth: int) -> tuple[Value, int]:
        if skip(data, position - 1) - position > FIELDS:
            raise _unread("a long list or map")
        return read(data, position, depth)

    return bounded


_SMALL_VALUES: Final = [_bounded(code) if code == 0 or code >= 0xC0 else _VALUES[code] for code in range(256)]
