"""Delivery annotations, which are for the next hop only (AMQP 1.0 part 3, 3.2.2), and those that links support.

Every link removes the others from received messages. Most messages have no delivery annotations, as their first bytes
show (`may_be_annotated`, in C).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from gateway.amqp.message._sections import may_be_annotated
from gateway.amqp.message.bounds import ANNOTATIONS
from gateway.amqp.message.sections import edit_map, keep_entries, splice, walk
from gateway.errors import AmqpError

__all__ = ["EVENTS", "ROUTING", "TARGETED", "may_be_annotated", "only", "too_many", "without"]

ROUTING: Final = frozenset(
    (b"response-address-cookie", b"response-link-target-address", b"response-address-cookie-expiry", b"address-cookie")
)
"""Those of response routing (RA 2.3, 2.4), on every link; the transform decides whether they are passed on."""
TARGETED: Final = ROUTING | {b"event-streams-target-partition"}
"""On links where a sender may name the partition of its message (ES 4.6.6)."""
EVENTS: Final = ROUTING | {
    b"event-streams-offset",
    b"event-streams-timestamp",
    b"event-streams-source-partition",
    b"event-streams-associated-partitions-changed",
    b"event-streams-assigned-partitions-changed",
    b"x-opt-kafka-timestamp-type",
}
"""The annotations of an event from an event log (ES 5.1, 4.6.4, 4.6.5, which spells the last one in two ways; KM-3)."""


def only(data: bytes, names: frozenset[bytes]) -> bytes:
    """The message with only the delivery annotations of these names; malformed bytes are returned unchanged.

    Whoever decodes malformed bytes reports the error. A message with too many annotations is also returned unchanged
    (`too_many`): its link rejects it.
    """
    try:
        layout = walk(data)
        section = data[layout.da : layout.ma]
        if not section or len(section) > ANNOTATIONS or (left := keep_entries(section, names)) is section:
            return data
        return splice(data, layout, da=left)
    except AmqpError:
        return data


def too_many(data: bytes) -> bool:
    """Whether a message has more than `ANNOTATIONS` bytes of delivery annotations; without decoding them."""
    if len(data) <= ANNOTATIONS or not may_be_annotated(data):
        return False
    try:
        layout = walk(data)
        return layout.ma - layout.da > ANNOTATIONS
    except AmqpError:
        return False


def without(data: bytes, names: Collection[str]) -> bytes:
    """The message without the delivery annotations of these names; raises DECODE_ERROR if it is malformed."""
    if not may_be_annotated(data):
        return data
    layout = walk(data)
    if layout.da == layout.ma:
        return data
    return splice(data, layout, da=edit_map(data[layout.da : layout.ma], drop=names))
