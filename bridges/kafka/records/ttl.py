"""The ttl of events (AMQP 3.2.1, 3.2.4; KM-13). Pure: the time is an argument.

A log retains expired events. A delivered event has the ttl that remains, and a node may leave out expired events.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from bridges.kafka.records.event import EncodedEvent, header_fields
from gateway.amqp.codec.types import Uint
from gateway.amqp.message import sections
from gateway.amqp.message._sections import may_have_ttl
from gateway.errors import AmqpError

_TTL: Final = 2
_LEAST: Final = 1
"""The ttl of an expired event that is delivered anyway, because 0 means for ever to many clients."""
_HEADERS: Final = 256
"""Headers whose parts are remembered; a client sends few different ones."""
_LONGEST: Final = 64
"""Bytes of a header that is remembered. Five fields with the largest values have 24."""
_WIDE: Final = 256
"""From this value on, a ttl is encoded as `0x70` and four bytes; smaller ones are shorter (1.6.9)."""


class HeaderAroundTtl(NamedTuple):
    """A header with a ttl, around that of another one."""

    ttl: int
    before: bytes
    after: bytes

    def section(self, left: int) -> bytes:
        """The section with this ttl, at least `_WIDE`."""
        return self.before + left.to_bytes(4, "big") + self.after


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
    data, partition, offset, attempts, failures, time = event
    if time <= 0 or not may_have_ttl(data):
        return event
    layout = sections.walk(data)
    head = data[layout.header : layout.da]
    header = _known(head) if len(head) <= _LONGEST else _header(head)
    if header is None:
        return event
    left = max(_LEAST, header.ttl - max(0, now_ms - time))
    section = header.section(left) if left >= _WIDE else _with_ttl(head, left)
    return EncodedEvent(section + data[layout.da :], partition, offset, attempts, failures, time)


def _header(head: bytes) -> HeaderAroundTtl | None:
    """A header section around its ttl; None: it has none, or one of a wrong type."""
    if (lifetime := ttl(head)) is None:
        return None
    zeros, ones = _with_ttl(head, 0x01010101), _with_ttl(head, 0x02020202)
    at = next(place for place, (one, other) in enumerate(zip(zeros, ones, strict=True)) if one != other)
    return HeaderAroundTtl(lifetime, zeros[:at], zeros[at + 4 :])


_known: Final = lru_cache(_HEADERS)(_header)


def _with_ttl(head: bytes, left: int) -> bytes:
    fields = sections.header(head, sections.walk(head))
    return sections.section(sections.HEADER, [*fields[:_TTL], Uint(left), *fields[_TTL + 1 :]])


def unexpired(
    events: list[EncodedEvent], index: int, limit: int, now_ms: int, *, drop: bool
) -> tuple[list[EncodedEvent], int]:
    """Up to `limit` events from `index` on, with the ttl that remains, and the next index; `drop`: no expired ones."""
    if not drop:
        found = events[index : index + limit]
        chosen = [with_remaining_ttl(event, now_ms) if may_have_ttl(event[0]) else event for event in found]
        return chosen, index + len(found)
    chosen = []
    while index < len(events) and len(chosen) < limit:
        event = events[index]
        index += 1
        if not expired(event, now_ms):
            chosen.append(with_remaining_ttl(event, now_ms))
    return chosen, index
