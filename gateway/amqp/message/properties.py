"""The properties section (AMQP 1.0 part 3, 3.2.4): single fields of an encoded one, read and replaced."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from itertools import pairwise
from typing import Final, Generic, TypeVar

from gateway.amqp.codec.decoder import decode, decode_all, malformed, skip
from gateway.amqp.codec.encoder import encode_list
from gateway.amqp.codec.types import Symbol, Timestamp, Uint, Ulong, Value
from gateway.amqp.message import _sections
from gateway.amqp.message.section_index import SectionOffsets, opened
from gateway.errors import INVALID_FIELD, AmqpError

MESSAGE_ID: Final = 0
USER_ID: Final = 1
TO: Final = 2
SUBJECT: Final = 3
REPLY_TO: Final = 4
CORRELATION_ID: Final = 5
CONTENT_TYPE: Final = 6
CONTENT_ENCODING: Final = 7
ABSOLUTE_EXPIRY_TIME: Final = 8
CREATION_TIME: Final = 9
GROUP_ID: Final = 10
GROUP_SEQUENCE: Final = 11
REPLY_TO_GROUP_ID: Final = 12

_FIELDS: Final = 13
_NULL: Final = b"\x40"
_COMPOUND: Final = frozenset((0x00, 0x45, 0xC0, 0xC1, 0xD0, 0xD1, 0xE0, 0xF0))
"""The constructors of lists, maps, arrays and described values."""
T = TypeVar("T")
MessageId = Ulong | uuid.UUID | bytes | str


def field_value(field: bytes | None) -> Value:
    """The value of an encoded field; None for None.

    `...` for a list, map, array or described value, which no property may be: it is not decoded, because it may be very
    long.
    """
    if field is None:
        return None
    return ... if field[0] in _COMPOUND else decode_all(field)


class _Field(Generic[T]):
    """A descriptor of one field: decodes it, and raises an error with its name if its type is not one of `types`."""

    def __init__(self, index: int, *types: type) -> None:
        self._index, self._types = index, types

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name.replace("_", "-")

    def __get__(self, view: Properties, owner: type) -> T | None:
        value = view.simple(self._index)
        if value is None or type(value) in self._types:
            return value  # type: ignore[no-any-return]  # `types` says what it is
        raise AmqpError(
            INVALID_FIELD, f"property {self._name} has a wrong type", info={"field": Symbol(self._name)}
        )


class Properties:
    """A view of the section that decodes fields when they are read."""

    __slots__ = ("_data", "_starts")

    message_id = _Field[MessageId](MESSAGE_ID, str, Ulong, uuid.UUID, bytes)
    user_id = _Field[bytes](USER_ID, bytes)
    to = _Field[str](TO, str)
    subject = _Field[str](SUBJECT, str)
    reply_to = _Field[str](REPLY_TO, str)
    correlation_id = _Field[MessageId](CORRELATION_ID, str, Ulong, uuid.UUID, bytes)
    content_type = _Field[str](CONTENT_TYPE, Symbol)
    content_encoding = _Field[str](CONTENT_ENCODING, Symbol)
    absolute_expiry_time = _Field[int](ABSOLUTE_EXPIRY_TIME, Timestamp)
    creation_time = _Field[int](CREATION_TIME, Timestamp)
    group_id = _Field[str](GROUP_ID, str)
    group_sequence = _Field[int](GROUP_SEQUENCE, Uint)
    reply_to_group_id = _Field[str](REPLY_TO_GROUP_ID, str)

    def __init__(self, data: bytes, layout: SectionOffsets) -> None:
        self._data = data
        self._starts = _field_starts(data, layout)

    def simple(self, index: int) -> Value:
        """`value`, or `...` as in `field_value`."""
        starts = self._starts
        return ... if index < len(starts) - 1 and self._data[starts[index]] in _COMPOUND else self.value(index)

    def value(self, index: int) -> Value:
        """The value of a field; None where it is absent or null."""
        return decode(self._data, self._starts[index])[0] if index < len(self._starts) - 1 else None


def property_field(data: bytes, layout: SectionOffsets, index: int) -> bytes | None:
    """One field's encoded bytes; `None` where it is absent or null."""
    if layout.properties == layout.app:
        return None
    found = _sections.properties_field(data, layout.properties, index)
    return _property_field(data, layout, index) if found is ... else found


def _property_field(data: bytes, layout: SectionOffsets, index: int) -> bytes | None:
    """The general form: any encoding of the section, and the errors."""
    position, end, count = opened(data, layout.properties)
    if index >= count:
        return None
    for _ in range(index):
        position = skip(data, position)
    after = skip(data, position)
    if after > end:
        raise malformed("fields do not fill the properties section")
    return None if data[position] == _NULL[0] else data[position:after]


def replace_properties(data: bytes, layout: SectionOffsets, fields: Mapping[int, bytes]) -> bytes:
    """The message with the fields at these indexes replaced by encoded values; the others byte-equal."""
    starts = _field_starts(data, layout)
    encoded = [data[start:end] for start, end in pairwise(starts)]
    encoded += [_NULL] * (max(fields, default=-1) + 1 - len(encoded))
    for index, value in fields.items():
        encoded[index] = value
    section = b"\x00\x53\x73" + encode_list(encoded)
    return data[: layout.properties] + section + data[layout.app :]


def _field_starts(data: bytes, layout: SectionOffsets) -> list[int]:
    """Each field's start and, last, where the fields end."""
    if layout.properties == layout.app:
        return []
    position, end, count = opened(data, layout.properties)
    if count > _FIELDS:
        raise malformed("properties have more than 13 fields")
    starts = [position]
    for _ in range(count):
        position = skip(data, position)
        starts.append(position)
    if position != end:
        raise malformed("fields do not fill the properties section")
    return starts
