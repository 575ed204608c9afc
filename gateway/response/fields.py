"""Reads and replaces the properties that are meaningful only within a scope, in one pass over the bytes.

message-id, to, reply-to and correlation-id are among the first six fields (AMQP 1.0 part 3, 3.2.4); the
others are copied as one piece. `replace_properties` is the general form; this one takes half of its
time, and the boundary runs it for every message.
"""

from __future__ import annotations

from typing import Final

from gateway.amqp.codec.codec import Symbol, malformed, skip
from gateway.amqp.message import _sections
from gateway.amqp.message.section_index import opened
from gateway.amqp.message.sections import SectionOffsets
from gateway.errors import INVALID_FIELD, AmqpError

MESSAGE_ID: Final = 0
TO: Final = 2
REPLY_TO: Final = 4
CORRELATION_ID: Final = 5
NULL: Final = b"\x40"
LEADING: Final = 6
# null, ulong (three forms), uuid, binary and string (two each): part 3, 3.2.11 to 3.2.14
_ID_CONSTRUCTORS: Final = frozenset(b"\x40\x80\x53\x44\x98\xa0\xb0\xa1\xb1")
_STR8, _STR32 = 0xA1, 0xB1
ME: Final = b"$me"

Fields = tuple[list[bytes], bytes, int]
"""The first six fields, encoded (`NULL` where absent), the bytes of the rest, and the number of fields."""


def leading_fields(data: bytes, layout: SectionOffsets) -> Fields:
    """The first six fields and the rest; raises DECODE_ERROR if the fields do not fit the section."""
    if layout.properties == layout.app:
        return [NULL] * LEADING, b"", 0
    found = _sections.leading_fields(data, layout.properties)
    return _leading_fields(data, layout) if found is ... else found


def _leading_fields(data: bytes, layout: SectionOffsets) -> Fields:
    """The general form: any encoding of the section, and the errors."""
    position, end, count = opened(data, layout.properties)
    leading = [NULL] * LEADING
    for index in range(min(count, LEADING)):
        start, position = position, skip(data, position)
        leading[index] = data[start:position]
    if position > end or (position < end and count <= LEADING):
        raise malformed("fields do not fill the properties section")
    return leading, data[position:end], count


def assemble(data: bytes, layout: SectionOffsets, annotations: bytes, fields: Fields) -> bytes:
    """The message with these delivery annotations (b"": none) and these properties.

    The properties do not end in more nulls than before.
    """
    made = _sections.assemble(data, layout, annotations, fields)
    return _assemble(data, layout, annotations, fields) if made is ... else made


def _assemble(data: bytes, layout: SectionOffsets, annotations: bytes, fields: Fields) -> bytes:
    """The general form: any size, and fields from elsewhere."""
    leading, rest, count = fields
    if count < LEADING:
        last = LEADING
        while last > count and leading[last - 1] == NULL:
            last -= 1
        count, leading = last, leading[:last]
    payload = b"".join(leading)
    size = len(payload) + len(rest)
    if size < 255:
        head = b"\x00\x53\x73\xc0%c%c" % (size + 1, count)
    else:
        head = b"\x00\x53\x73\xd0%b%b" % ((size + 4).to_bytes(4, "big"), count.to_bytes(4, "big"))
    start = layout.properties
    if not start:  # no section comes before them, as in most messages
        return b"".join((annotations, head, payload, rest, data[layout.app :]))
    before = data[layout.ma : start]
    return b"".join((data[: layout.da], annotations, before, head, payload, rest, data[layout.app :]))


def address_text(field: bytes, name: str) -> str | None:
    """An encoded address field as text; None for null."""
    code = field[0]
    if code == 0x40:
        return None
    try:
        if code == _STR8:
            return field[2:].decode()
        if code == _STR32:
            return field[5:].decode()
    except UnicodeDecodeError:
        raise malformed("text is not valid utf-8") from None
    raise wrong_type(name)


def is_me(field: bytes) -> bool:
    """Whether an encoded reply-to is `$me`, the other link of a pair (ledger CORE-10)."""
    return field.endswith(ME) and address_text(field, "reply-to") == "$me"


def check_id(field: bytes, name: str) -> bytes:
    """An encoded message-id or correlation-id, as it was; the four types and null are allowed."""
    if field[0] not in _ID_CONSTRUCTORS:
        raise wrong_type(name)
    return field


def wrong_type(name: str) -> AmqpError:
    return AmqpError(INVALID_FIELD, f"property {name} has a wrong type", info={"field": Symbol(name)})
