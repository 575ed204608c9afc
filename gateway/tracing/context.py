"""The W3C trace context that a message carries (Trace Context, 3.2 `traceparent`). Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gateway.amqp.codec.decoder import decode
from gateway.amqp.message.sections import SectionOffsets, map_entry, walk
from gateway.errors import AmqpError

MARK: Final = b"traceparent"
"""Bytes that occur in every message with a trace context."""
SEARCHED: Final = 16 * 1024
"""The number of bytes at the start of a message that are searched for a context."""
_KEYS: Final = ("traceparent", "cloudEvents:traceparent", "cloudEvents_traceparent")
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_USUAL: Final = re.compile(
    rb"traceparent[\xa1\xa3]\x37[0-9a-f]{2}-[0-9a-f]{16}([0-9a-f]{16})-[0-9a-f]{16}-([0-9a-f]{2})"
)
"""The encoding of a context that nearly all clients use: the key, then a string of 55 bytes."""
_SAMPLED: Final = 1
_KNOWN: Final = "00"
_INVALID: Final = "ff"


class TraceContext(NamedTuple):
    """The trace of a message, and the span of its sender."""

    trace: int
    parent: int


def left_out(data: bytes, below: int) -> bool:
    """Whether a message is certainly not traced: no context in it is sampled and has the low half of its trace id below
    `below`. A quick check that recognizes only the usual encoding."""
    found = _USUAL.findall(data, 0, SEARCHED)
    if not found or len(found) != data.count(MARK, 0, SEARCHED):
        return False
    return not any(int(flags, 16) & _SAMPLED and int(low, 16) < below for low, flags in found)


def read(data: bytes) -> TraceContext | None:
    """The trace context of an encoded message; None if it has none, or its sender did not sample it."""
    if data.find(MARK, 0, SEARCHED) < 0:
        return None
    try:
        layout = walk(data)
        return next((found for text in _texts(data, layout) if (found := parse(text)) is not None), None)
    except AmqpError:  # the node that receives the message rejects it
        return None


def _texts(data: bytes, layout: SectionOffsets) -> list[object]:
    """The values of the application properties and message annotations that may be a context."""
    sections = ((layout.app, layout.body), (layout.ma, layout.bare))
    raw = [map_entry(data[start:end], key) for start, end in sections if start < end for key in _KEYS]
    return [decode(each, 0)[0] for each in raw if each is not None]


def parse(text: object) -> TraceContext | None:
    """Parse a `traceparent` of any version; None if it is invalid or its sampled flag is not set."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[1] == _INVALID or (found[1] == _KNOWN and found[5]):
        return None
    context = TraceContext(int(found[2], 16), int(found[3], 16))
    return context if all(context) and int(found[4], 16) & _SAMPLED else None
