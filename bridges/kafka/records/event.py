"""An event: the encoded message of a Kafka record, and the place of the record in its log. Pure."""

from __future__ import annotations

from typing import NamedTuple

from gateway.amqp.message import sections
from gateway.errors import AmqpError


class EncodedEvent(NamedTuple):
    """An encoded event, its place in the log, and how often it was redelivered.

    It is encoded once for all links. `_messages.h` creates it with the fields in this order.
    """

    data: bytes
    partition: int
    offset: int
    attempts: int = 0
    """Deliveries on this link that the peer has released or modified."""
    failures: int = 0
    """Those of them that count as failed (AMQP 3.4.5)."""
    time: int = -1
    """When it was added to the log, in milliseconds since 1970; -1: unknown."""


def header_fields(data: bytes, layout: sections.SectionOffsets) -> list[object] | None:
    """The fields of the header that it has; None: they cannot be decoded, because producers may write anything."""
    try:
        return list(sections.header(data, layout))
    except AmqpError:
        return None
