"""Finds the sections of an encoded message without decoding them (AMQP 1.0 part 3, 3.2).

It is called for every message, and reads only descriptors, constructors and sizes. It checks the order and number of
the sections; readers of sections check their contents. A message without a body is accepted: some clients send it, and
a relay must not change it.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from gateway.amqp.codec.decoder import STEPS, decode, malformed, skip
from gateway.amqp.message import _sections
from gateway.amqp.message.bounds import SECTIONS
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

HEADER: Final = 0x70
DELIVERY_ANNOTATIONS: Final = 0x71
MESSAGE_ANNOTATIONS: Final = 0x72
PROPERTIES: Final = 0x73
APPLICATION_PROPERTIES: Final = 0x74
DATA: Final = 0x75
AMQP_SEQUENCE: Final = 0x76
AMQP_VALUE: Final = 0x77
FOOTER: Final = 0x78


class SectionOffsets(NamedTuple):
    """Offsets: each section's start, or that of its successor if it is absent.

    So `data[layout.da:layout.ma]` is the delivery annotations section or empty, and `data[layout.bare:]` everything
    from the bare message on. `bare` and `properties` are equal.
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
_u32: Final = struct.Struct(">I").unpack_from
_new: Final = tuple.__new__


def walk(data: bytes) -> SectionOffsets:
    """The layout of the message `data`; C finds it unless it is malformed."""
    found = _sections.section_offsets(data)
    return _walk(data) if found is ... else found


def _walk(data: bytes) -> SectionOffsets:
    """The general form: any encoding of any section, and the errors."""
    length = len(data)
    position, previous, left = 0, 0, SECTIONS
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
                raise malformed(f"section 0x{code:02x} is repeated or out of order")
            previous = code
            left -= 1
            if left < 0:
                raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"a message may have at most {SECTIONS} sections")
            found = data[position]
            if form and found == form:
                position += 2 + data[position + 1]
            else:
                position = _section_end(data, position, form, found)
    except KeyError:
        raise malformed(f"unknown section descriptor 0x{code:02x}") from None
    except (IndexError, struct.error):
        raise malformed("section cut off") from None
    if position > length:
        raise malformed("section cut off")
    starts += [length] * (_PLACES - len(starts))
    header, da, ma, bare, app, body, footer = starts
    return _new(SectionOffsets, (header, da, ma, bare, bare, app, body, footer, length))


def _section_end(data: bytes, position: int, form: int, found: int) -> int:
    if not form:
        return skip(data, position)
    if found == form + 0x10:
        return int(position + 5 + _u32(data, position + 1)[0])
    if found == _LIST0 and form == 0xC0:
        return position + 1
    raise malformed(f"section has a value of the wrong type 0x{found:02x}")


def descriptor(data: bytes, start: int) -> tuple[int, int]:
    """The section code at `start`, a ulong or symbol in any form, and where the section's value starts."""
    if len(data) < start + 4:
        raise malformed("section cut off")
    if data[start : start + 2] == b"\x00\x53":
        return data[start + 2], start + 3
    if data[start] or data[start + 1] not in _DESCRIPTOR_FORMS:
        raise malformed("expected a section")
    value, position = decode(data, start + 1)
    code = _SYMBOLS.get(value, 0) if isinstance(value, str) else int(value)
    if code not in _SECTIONS:
        raise malformed(f"unknown section descriptor {str(value)[:64]}")
    return code, position


def opened(data: bytes, start: int) -> tuple[int, int, int]:
    """First item, end and count of the list or map of the section at `start`, which `walk` has found."""
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


_sections.bind(SectionOffsets, STEPS, SECTIONS)
