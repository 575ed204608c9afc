"""Where the sections of an encoded message lie (AMQP 1.0 part 3, 3.2), found without decoding them.

Called for every message that passes: it looks at descriptors, constructors and sizes only. Order and
number of the sections are checked here, their contents by whoever reads them. A message without a
body is let through: some clients send it, and a relay has no business to mend it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import combinations
from operator import itemgetter
from typing import Any, Final, NamedTuple

from gateway.amqp.decoder import decode, malformed, skip

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78


class Layout(NamedTuple):
    """Offsets: each section's start, or its successor's where it is absent.

    So `data[layout.da:layout.ma]` is the delivery annotations section or nothing, and `data[layout.bare:]`
    everything from the bare message on. `bare` and `properties` are the same place.
    """

    header: int
    da: int
    ma: int
    bare: int
    properties: int
    app: int
    body: int
    footer: int
    end: int


_BODY, _PLACES = 5, 7
# section: its place in the order, and the 8-bit constructor of its value (0: any)
_SECTIONS: Final = {
    HEADER: (0, 0xC0),
    DELIVERY_ANNOTATIONS: (1, 0xC1),
    MESSAGE_ANNOTATIONS: (2, 0xC1),
    PROPERTIES: (3, 0xC0),
    APPLICATION_PROPERTIES: (4, 0xC1),
    DATA: (_BODY, 0xA0),
    AMQP_SEQUENCE: (_BODY, 0xC0),
    AMQP_VALUE: (_BODY, 0),
    FOOTER: (6, 0xC1),
}
_SYMBOLS: Final = {
    "amqp:header:list": HEADER,
    "amqp:delivery-annotations:map": DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": MESSAGE_ANNOTATIONS,
    "amqp:properties:list": PROPERTIES,
    "amqp:application-properties:map": APPLICATION_PROPERTIES,
    "amqp:data:binary": DATA,
    "amqp:amqp-sequence:list": AMQP_SEQUENCE,
    "amqp:amqp-value:*": AMQP_VALUE,
    "amqp:footer:map": FOOTER,
}
_ULONG8, _LIST0, _SMALL_ULONG = 0x80, 0x45, 0x53
_DESCRIPTOR_FORMS: Final = (_ULONG8, _SMALL_ULONG, 0xA3, 0xB3)
_SIZED: Final = (0xA0, 0xA1, 0xA3, 0xC0, 0xC1)
"""Values of up to 255 bytes; plus 0x10 the same kinds with four bytes of size."""
_u32: Final = struct.Struct(">I").unpack_from
_head: Final = struct.Struct(">IB").unpack_from
"""How a section usually begins: `00 53`, its code and the value's constructor as one number; then a byte of size."""
_new: Final = tuple.__new__


def _heads(wide: int) -> dict[int, int]:
    """Usual beginning to place in the order, from 1."""
    return {
        0x530000 | code << 8 | each + wide: place + 1
        for code, (place, form) in _SECTIONS.items()
        for each in ((form,) if form else _SIZED)
    }


def _offsets() -> dict[int, Callable[[list[int]], tuple[Any, ...]]]:
    """Which sections are there, their places as octal digits: picks a `Layout` from their starts and the end."""
    pickers: dict[int, Callable[[list[int]], tuple[Any, ...]]] = {}
    for number in range(_PLACES + 1):
        for places in combinations(range(_PLACES), number):
            shape = sum(place + 1 << 3 * (number - at - 1) for at, place in enumerate(places))
            header, da, *rest = [sum(found < place for found in places) for place in range(_PLACES)]
            ma, bare = rest[:2]
            pickers[shape] = itemgetter(header, da, *(ma, bare, *rest[1:], number))
    return pickers


_SHORT: Final = _heads(0)
_LONG: Final = _heads(0x10)
_OFFSETS: Final = _offsets()
_MOST: Final = 8 ** (_PLACES - 1)
"""More than this is no shape of a message that has each section once."""


def walk(data: bytes) -> Layout:
    """The layout of the message `data`; sections that begin as they usually do are found in larger steps."""
    length = len(data)
    position = shape = 0
    starts: list[int] = []
    try:
        while position < length and shape < _MOST:
            word, size = _head(data, position)
            starts.append(position)
            place = _SHORT.get(word)
            if place:
                position += 5 + size
            else:
                place = _LONG[word]
                position += 8 + _u32(data, position + 4)[0]
            shape = shape << 3 | place
        if position == length:
            starts.append(length)
            return _new(Layout, _OFFSETS[shape](starts))
    except (KeyError, struct.error):
        pass
    return _walk(data)


def _walk(data: bytes) -> Layout:
    """Any form of anything that may be there, and the errors."""
    length = len(data)
    position, previous = 0, 0
    starts: list[int] = []
    try:
        while position < length:
            if data[position] == 0 and data[position + 1] == _SMALL_ULONG:
                code, position = data[position + 2], position + 3
                start = position - 3
            else:
                start = position
                code, position = descriptor(data, position)
            place, form = _SECTIONS[code]
            missing = place + 1 - len(starts)
            if missing > 0:
                starts += [start] * missing
            elif code != previous or place != _BODY or missing < 0 or code == AMQP_VALUE:
                raise malformed(f"section 0x{code:02x} twice or out of order")
            previous = code
            found = data[position]
            if form and found == form:
                position += 2 + data[position + 1]
            else:
                position = _section_end(data, position, form, found)
    except KeyError:
        raise malformed(f"no section has the descriptor 0x{code:02x}") from None
    except (IndexError, struct.error):
        raise malformed("section cut off") from None
    if position > length:
        raise malformed("section cut off")
    starts += [length] * (_PLACES - len(starts))
    header, da, ma, bare, app, body, footer = starts
    return _new(Layout, (header, da, ma, bare, bare, app, body, footer, length))


def _section_end(data: bytes, position: int, form: int, found: int) -> int:
    if not form:
        return skip(data, position)
    if found == form + 0x10:
        return int(position + 5 + _u32(data, position + 1)[0])
    if found == _LIST0 and form == 0xC0:
        return position + 1
    raise malformed(f"section holds a value of the wrong type 0x{found:02x}")


def descriptor(data: bytes, start: int) -> tuple[int, int]:
    """The section code at `start`, a ulong or symbol in any form, and where the section's value starts."""
    if len(data) < start + 4:
        raise malformed("section cut off")
    if data[start : start + 2] == b"\x00\x53":
        return data[start + 2], start + 3
    if data[start] or data[start + 1] not in _DESCRIPTOR_FORMS:
        raise malformed("no section starts here")
    value, position = decode(data, start + 1)
    code = _SYMBOLS.get(value, 0) if isinstance(value, str) else int(value)
    if code not in _SECTIONS:
        raise malformed(f"no section has the descriptor {str(value)[:64]}")
    return code, position


def opened(data: bytes, start: int) -> tuple[int, int, int]:
    """First item, end and count of the list or map that is the section at `start`; `walk` found it there."""
    try:
        position = start + 3 if data[start + 1] == _SMALL_ULONG else descriptor(data, start)[1]
        form = data[position]
        if form < 0xC0:
            return position + 1, position + 1, 0
        if form < 0xD0:
            first, end, count = position + 3, position + 2 + data[position + 1], data[position + 2]
        else:
            size, count = struct.unpack_from(">II", data, position + 1)
            first, end = position + 9, position + 5 + size
    except (IndexError, struct.error):
        raise malformed("section cut off") from None
    if first > end or end > len(data) or count > end - first:
        raise malformed("section cut off")
    return first, end, count
