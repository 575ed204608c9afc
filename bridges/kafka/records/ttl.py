"""Times to live of events (AMQP 3.2.1, 3.2.4; KM-13). Pure: the time is an argument.

A log keeps expired events; a delivered event has the ttl that is left, and a node may leave out expired ones.
"""

from __future__ import annotations

from typing import Final

from bridges.kafka.records.event import EncodedEvent, header_fields
from gateway.amqp.codec.types import Uint, ValueList
from gateway.amqp.message import sections
from gateway.errors import AmqpError

_TTL: Final = 2
_LEAST: Final = 1
"""The ttl of an expired event that is delivered all the same: to many clients 0 means for ever."""


def ttl(data: bytes) -> int | None:
    """The header's ttl in milliseconds; None where it has none, or one of a type that ttl does not have (3.2.1)."""
    fields = header_fields(data, sections.walk(data)) or ()
    value = fields[_TTL] if len(fields) > _TTL else None
    return value if type(value) is Uint else None


def expired(event: EncodedEvent, now_ms: int) -> bool:
    """Whether the event has expired; a field of a wrong type is ignored."""
    until = _expiry(event.data)
    if until is not None:
        return now_ms >= until
    lives = ttl(event.data)
    return lives is not None and event.time > 0 and now_ms - event.time >= lives


def _expiry(data: bytes) -> int | None:
    try:
        return sections.properties(data, sections.walk(data)).absolute_expiry_time
    except AmqpError:
        return None


def with_remaining_ttl(event: EncodedEvent, now_ms: int) -> EncodedEvent:
    """The event with the ttl that is left; one without a time of being added stays as it is."""
    lives = ttl(event.data)
    if lives is None or event.time <= 0:
        return event
    layout = sections.walk(event.data)
    fields: ValueList = list(sections.header(event.data, layout))
    fields[_TTL] = Uint(max(_LEAST, lives - max(0, now_ms - event.time)))
    return event._replace(data=sections.section(sections.HEADER, fields) + event.data[layout.da :])


def unexpired(
    events: list[EncodedEvent], index: int, most: int, now_ms: int, *, drop: bool
) -> tuple[list[EncodedEvent], int]:
    """Up to `most` events from `index` on, aged, and the index behind them; `drop` leaves out the expired."""
    chosen: list[EncodedEvent] = []
    while index < len(events) and len(chosen) < most:
        event = events[index]
        index += 1
        if not (drop and expired(event, now_ms)):
            chosen.append(with_remaining_ttl(event, now_ms))
    return chosen, index
