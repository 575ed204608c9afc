"""The W3C trace context that a message carries (Trace Context, 3.2 `traceparent`). Pure."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from gateway.amqp.codec.decoder import decode
from gateway.amqp.message.sections import SectionOffsets, map_entry, walk
from gateway.errors import AmqpError

MARK: Final = b"traceparent"
"""What the bytes of a message with a context contain."""
SEARCHED: Final = 16 * 1024
"""The first bytes of a message, in which its context is looked for."""
_KEYS: Final = ("traceparent", "cloudEvents:traceparent", "cloudEvents_traceparent")
_FORM: Final = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_USUAL: Final = re.compile(
    rb"traceparent[\xa1\xa3]\x37[0-9a-f]{2}-[0-9a-f]{16}([0-9a-f]{16})-[0-9a-f]{16}-([0-9a-f]{2})"
)
"""A context as nearly all clients encode it: a key, and a text of 55 bytes."""
_SAMPLED: Final = 1
_KNOWN: Final = "00"
_INVALID: Final = "ff"


class TraceContext(NamedTuple):
    """The trace of a message, and the span that sent it."""

    trace: int
    parent: int


def left_out(data: bytes, below: int) -> bool:
    """Whether a message certainly has no span, because no context in it is sampled with the low half of its trace id
    less than `below`: a quick look, which knows only the usual encoding."""
    found = _USUAL.findall(data, 0, SEARCHED)
    if not found or len(found) != data.count(MARK, 0, SEARCHED):
        return False
    return not any(int(flags, 16) & _SAMPLED and int(low, 16) < below for low, flags in found)


def read(data: bytes) -> TraceContext | None:
    """The context of an encoded message whose sender samples it; None: it has none, or is not sampled."""
    if data.find(MARK, 0, SEARCHED) < 0:
        return None
    try:
        layout = walk(data)
        return next((found for text in _texts(data, layout) if (found := parse(text)) is not None), None)
    except AmqpError:  # the node that takes the message refuses it
        return None


def _texts(data: bytes, layout: SectionOffsets) -> list[object]:
    """The values of the application properties and message annotations that may be a context."""
    sections = ((layout.app, layout.body), (layout.ma, layout.bare))
    raw = [map_entry(data[start:end], key) for start, end in sections if start < end for key in _KEYS]
    return [decode(each, 0)[0] for each in raw if each is not None]


def parse(text: object) -> TraceContext | None:
    """A `traceparent` of any version; None if it is none, or says that its trace is not sampled."""
    found = _FORM.fullmatch(text) if isinstance(text, str) else None
    if found is None or found[1] == _INVALID or (found[1] == _KNOWN and found[5]):
        return None
    context = TraceContext(int(found[2], 16), int(found[3], 16))
    return context if all(context) and int(found[4], 16) & _SAMPLED else None
