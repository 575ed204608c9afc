"""Events as clients send them: the events of a batch, each checked down to the values inside its sections. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gateway.amqp.codec.decoder import decode, skip
from gateway.amqp.message import sections
from gateway.amqp.message.section_index import SectionOffsets, descriptor
from gateway.errors import DECODE_ERROR, AmqpError

BATCH_FORMAT: Final = 0x80013700
"""The message-format of a batch: each data section is an encoded message."""
PARTITION_KEY: Final = "x-opt-partition-key"
_DATA_FORM: Final = b"\x00\x53\x75"
_SHORT: Final = b"\x00\x53\x75\xa0"
_NULL_DATA: Final = b"\x00\x53\x75\x40"
_EMPTY: Final = b"\xa0\x00"
"""A binary without bytes, encoded."""


def unpack(data: bytes) -> Iterator[bytes]:
    """The messages of a batch, each checked when it is its turn; the batch's partition key is that of all of them.

    A batch may have as many of them as fit: it has more sections than a message may have.

    Raises:
        AmqpError: DECODE_ERROR if it is no batch, or one of its messages is none.
    """
    front = _front(data)
    layout = sections.walk(data[:front])
    key = sections.map_entry(data[layout.ma : layout.bare], PARTITION_KEY) if layout.ma < layout.bare else None
    while front < len(data):
        message, front = _data_section(data, front)
        yield _keyed(_with_body(message), key)


def _front(data: bytes) -> int:
    """Where the first data section of a batch begins."""
    position = 0
    while position < len(data):
        code, value = descriptor(data, position)
        if code == sections.DATA:
            return position
        position = skip(data, value)
    raise _no_batch()


def _data_section(data: bytes, start: int) -> tuple[bytes, int]:
    """The content of the data section at `start`, and where it ends."""
    if data[start : start + 4] == _SHORT and start + 5 <= len(data):
        end = start + 5 + data[start + 4]
        if end <= len(data):
            return data[start + 5 : end], end
    code, position = descriptor(data, start)
    content, end = decode(data, position)
    if code != sections.DATA or not isinstance(content, bytes):
        raise _no_batch()
    return content, end


def _no_batch() -> AmqpError:
    return AmqpError(DECODE_ERROR, "a batch must have data sections, each of which is an encoded message")


def _with_body(message: bytes) -> bytes:
    """A message whose data section is null, as the client for JavaScript sends a body of null, with an empty one."""
    if message.endswith(_NULL_DATA):
        try:
            sections.walk(message)  # what is read is no such section: it only ends with these bytes
        except AmqpError:
            return message[:-1] + _EMPTY
    return message


def _keyed(message: bytes, key: bytes | None) -> bytes:
    layout = check(message)
    if key is None:
        return message
    annotations = sections.edit_map(
        message[layout.ma : layout.bare], put={PARTITION_KEY: key}, code=sections.MESSAGE_ANNOTATIONS
    )
    return sections.splice(message, layout, ma=annotations)


def check(message: bytes) -> SectionOffsets:
    """The layout of an event, whose sections are valid down to the innermost value.

    Clients of Event Hubs read a partition up to an event that they cannot decode, and no further.

    Raises:
        AmqpError: DECODE_ERROR if it has no section, or a value is malformed or nested deeper than 32 levels.
    """
    layout = sections.walk(message)
    if not message:
        raise AmqpError(DECODE_ERROR, "an event must have a body")
    if message[:3] != _DATA_FORM or layout.footer < layout.end:
        _check_values(message)
    return layout


def _check_values(message: bytes) -> None:
    position = 0
    while position < len(message):
        code, value = descriptor(message, position)
        position = skip(message, value) if code == sections.DATA else decode(message, value)[1]
