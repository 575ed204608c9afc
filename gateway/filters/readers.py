"""Fields of encoded messages, found without decoding the others: the innermost loops of the filters.

Entries of maps are walked over by their constructors and sizes (AMQP 1.0 part 1, 1.2) and compared as encoded bytes;
only what a filter names is decoded, integers as plain `int`, for their width means nothing to a filter. The functions
raise `MALFORMED` or give wrong values for malformed bytes, never read outside.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

from gateway.amqp.codec import malformed, skip
from gateway.amqp.decoder import ASK_SKIP, LIMITS, READERS, STEPS
from gateway.amqp.layout import AMQP_VALUE, Layout, descriptor, opened
from gateway.errors import AmqpError
from gateway.filters.predicate import number_in

Encoded = tuple[bytes, Layout]
"""A message as it is on the wire, and where its sections are."""


class Absent:
    """What a field is that is not there: like null to everything but `Exists` and the maps of property filters."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "absent"


ABSENT: Final = Absent()
MALFORMED: Final = (AmqpError, IndexError, struct.error, UnicodeDecodeError)
"""What a reader may raise for bytes that cannot be decoded: then the message matches no filter that asked for them."""


class Slotted(dict[int, Any]):
    """The values of fields by their slots; what is not there is `ABSENT`."""

    __slots__ = ()

    def __missing__(self, slot: int) -> Absent:
        return ABSENT


_V = TypeVar("_V", list[Any], Slotted)
_Read = Callable[[Encoded], Sequence[Any]]
_MAX_ULONG: Final = (1 << 64) - 1
_DEPTH: Final = LIMITS.depth - 1
_STRING8, _SYMBOL8, _NULL, _SMALL_ULONG, _MAP8, _MAP32 = 0xA1, 0xA3, 0x40, 0x53, 0xC1, 0xD1


def list_reader(place: int, slots: Mapping[int, int], blank: list[Any]) -> _Read:
    """For the list at `layout[place]`: puts its items where `slots` says; nulls leave what is in `blank`."""
    last = max(slots, default=-1)

    def read(source: Encoded) -> Sequence[Any]:
        data, layout = source
        start = layout[place]
        if start == layout[place + 1]:
            return blank
        values = blank.copy()
        position, end, count = opened(data, start)
        for index in range(min(count, last + 1)):
            slot = slots.get(index)
            if slot is None or data[position] == _NULL:
                position = skip(data, position)
            else:
                values[slot], position = _VALUES[data[position]](data, position + 1, _DEPTH)
        if position > end:
            raise malformed("fields do not fill their section")
        return values

    return read


def map_reader(place: int, names: tuple[str, ...]) -> _Read:
    """For the map at `layout[place]`: the entries under `names`, the first of each."""
    find, blank, wanted = _finder(_slots(names)), [ABSENT] * len(names), len(names)
    after = place + 1

    def read(source: Encoded) -> Sequence[Any]:
        data, layout = source
        start = layout[place]
        if start == layout[after]:
            return blank
        if data[start + 1] == _SMALL_ULONG and data[start + 3] == _MAP8:  # what nearly everybody sends
            return find(data, start + 6, start + 5 + data[start + 4], blank.copy(), wanted)
        position, end, _ = opened(data, start)
        return find(data, position, end, blank.copy(), wanted)

    return read


def value_reader(names: tuple[str, ...]) -> _Read:
    """For a body that is one value: the entries of a map; nothing of any other value."""
    find, blank, wanted = _finder(_slots(names)), [ABSENT] * len(names), len(names)

    def read(source: Encoded) -> Sequence[Any]:
        found = _value_map(source)
        return blank if found is None else find(source[0], *found, blank.copy(), wanted)

    return read


def _value_map(source: Encoded) -> tuple[int, int] | None:
    """Where the entries of a body that is a map begin and end."""
    data, layout = source
    if layout.body == layout.footer:
        return None
    code, position = descriptor(data, layout.body)
    if code != AMQP_VALUE or data[position] not in (_MAP8, _MAP32):
        return None
    position, end, _ = opened(data, layout.body)
    return position, end


class MapEntries:
    """The entries of a map under names that come and go one by one, for many filters at once.

    The cost of a message is that of the entries it has, however many names there are.
    """

    def __init__(self, place: int | None) -> None:
        """`place`: the map at `layout[place]`; None: the body that is one value."""
        self._place: Final = place
        self._slots: Final[dict[bytes, int]] = {}
        self._find: Final = _finder(self._slots)
        self._names = 0

    def add(self, name: str, slot: int) -> None:
        """Read the entry `name` into `slot` from now on."""
        self._names += 1
        self._slots.update((key, slot) for key in _keys(name))

    def remove(self, name: str) -> None:
        """Nobody asks for the entry `name` any more."""
        self._names -= 1
        for key in _keys(name):
            del self._slots[key]

    def read(self, source: Encoded, values: Slotted) -> None:
        """Put what is there into `values`; raises MALFORMED for what cannot be decoded."""
        data, layout = source
        place = self._place
        if place is None:
            found = _value_map(source)
            if found is not None:
                self._find(data, *found, values, self._names)
            return
        start = layout[place]
        if start == layout[place + 1]:
            return
        if data[start + 1] == _SMALL_ULONG and data[start + 3] == _MAP8:
            self._find(data, start + 6, start + 5 + data[start + 4], values, self._names)
        else:
            position, end, _ = opened(data, start)
            self._find(data, position, end, values, self._names)


def _slots(names: tuple[str, ...]) -> dict[bytes, int]:
    return {key: slot for slot, name in enumerate(names) for key in _keys(name)}


def _finder(slots: dict[bytes, int]) -> Callable[[bytes, int, int, _V, int], _V]:
    """Walks the entries of a map, until as many as are wanted are found; `slots` may change between two walks."""
    slot_of = slots.get

    def find(data: bytes, position: int, end: int, values: _V, left: int) -> _V:
        while position < end:
            if data[position] == _STRING8 or data[position] == _SYMBOL8:  # a tuple costs more
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


def _keys(name: str) -> list[bytes]:
    """A name as key in all the forms a peer may send."""
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


def _whole(layout: str) -> Callable[[bytes, int, int], tuple[Any, int]]:
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
