"""The first annotation of a message that its receiver does not understand and may not ignore (AMQP 1.0 part 3, 3.2.10).

Keys that begin with `x-opt-` may be ignored. What a link understands of delivery annotations, its node says (`hop`); of
message annotations and of the footer, nothing here depends on the node.
"""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice
from typing import Final

from gateway.amqp.message.bounds import ANNOTATIONS
from gateway.amqp.message.sections import SectionOffsets, annotation_keys, walk
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

_IGNORABLE: Final = b"x-opt-"
_MESSAGE: Final = frozenset((b"event-streams-group-key",))
"""Message annotations that the gateway understands (ES 4.6.6)."""
_KEYS: Final = 1000
"""Keys of one section that are examined, one by one in Python: three such sections take about a millisecond."""
_SHOWN: Final = 100
"""Bytes of a key that an error shows."""
_END: Final = object()


def unknown_annotation(data: bytes, understood: Collection[bytes]) -> str | None:
    """Where and what the first such key is, for an error; None: there is none, or the bytes are no message.

    `understood` are the delivery annotations that the link understands. The reader of malformed bytes reports them.

    Raises:
        AmqpError: a section is too long, or has too many keys, to be searched.
    """
    try:
        layout = walk(data)
    except AmqpError:
        return None
    for name, section, known in _sections(data, layout, understood):
        if len(section) > ANNOTATIONS:
            text = f"the {name} may have at most {ANNOTATIONS} bytes at this listener (strict_annotations)"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
        if (found := _first(name, section, known)) is not None:
            return f"{name} key {found}"
    return None


def _sections(
    data: bytes, layout: SectionOffsets, understood: Collection[bytes]
) -> tuple[tuple[str, bytes, Collection[bytes]], ...]:
    return (
        ("delivery annotation", data[layout.da : layout.ma], understood),
        ("message annotation", data[layout.ma : layout.bare], _MESSAGE),
        ("footer", data[layout.footer : layout.end], ()),
    )


def _first(name: str, section: bytes, known: Collection[bytes]) -> str | None:
    keys = annotation_keys(section) if section else iter(())
    try:
        for key in islice(keys, _KEYS):
            if key is None:
                return "that is no symbol"
            if not key.startswith(_IGNORABLE) and key not in known:
                return repr(key[:_SHOWN].decode("ascii", "replace"))
        more = next(keys, _END) is not _END
    except AmqpError:
        return None
    if more:
        text = f"the {name}s may have at most {_KEYS} keys at this listener or connector (strict_annotations)"
        raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text)
    return None
