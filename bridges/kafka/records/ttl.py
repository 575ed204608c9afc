"""The ttl of events (AMQP 3.2.1, 3.2.4; KM-13). Pure: the time is an argument.

A log retains expired events. A delivered event has the ttl that remains, and a node may leave out expired events.
"""

from __future__ import annotations

from typing import Final

from bridges.kafka.records.event import EncodedEvent, header_fields
from gateway.amqp.codec.types import Uint, ValueList
from gateway.amqp.message import sections
from gateway.amqp.message._sections import may_have_ttl
from gateway.errors import AmqpError

_TTL: Final = 2
_LEAST: Final = 1
"""The ttl of an expired event that is delivered anyway, because 0 means for ever to many clients."""


def ttl(data: bytes) -> int | None:
    """The ttl in the header, in milliseconds; None: it has none, or one of a wrong type (3.2.1)."""
    if not may_have_ttl(data):  # as most messages
        return None
    fields = header_fields(data, sections.walk(data)) or ()
    value = fields[_TTL] if len(fields) > _TTL else None
    return value if type(value) is Uint else None


def expired(event: EncodedEvent, now_ms: int) -> bool:
    """Whether the event has expired; a field of a wrong type is ignored."""
    until = _expiry(event.data)
    if until is not None:
        return now_ms >= until
    lifetime = ttl(event.data)
    return lifetime is not None and event.time > 0 and now_ms - event.time >= lifetime


def _expiry(data: bytes) -> int | None:
    try:
        return sections.properties(data, sections.walk(data)).absolute_expiry_time
    except AmqpError:
        return None


def with_remaining_ttl(event: EncodedEvent, now_ms: int) -> EncodedEvent:
    """The event with the ttl that remains; unchanged if the time at which it was added is unknown."""
    lifetime = ttl(event.data)
    if lifetime is None or event.time <= 0:
        return event
    layout = sections.walk(event.data)
    fields: ValueList = list(sections.header(event.data, layout))
    fields[_TTL] = Uint(max(_LEAST, lifetime - max(0, now_ms - event.time)))
    return event._replace(data=sections.section(sections.HEADER, fields) + event.data[layout.da :])


def unexpired(
    events: list[EncodedEvent], index: int, limit: int, now_ms: int, *, drop: bool
) -> tuple[list[EncodedEvent], int]:
    """Up to `limit` events from `index` on, with the ttl that remains, and the next index; `drop`: no expired ones."""
    chosen: list[EncodedEvent] = []
    while index < len(events) and len(chosen) < limit:
        event = events[index]
        index += 1
        if not (drop and expired(event, now_ms)):
            chosen.append(with_remaining_ttl(event, now_ms))
    return chosen, index
