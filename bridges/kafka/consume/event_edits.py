"""Edits of an event for one link: redelivery, announced partitions, gaps. Pure.

Events are encoded once, whatever the number of links; few of them need an edit.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from bridges.kafka.counters import ClusterCounters
from bridges.kafka.records.event import EncodedEvent, header_fields
from gateway.amqp.codec.codec import decode_all, encode
from gateway.amqp.codec.types import Array, Symbol, Uint
from gateway.amqp.message import sections

ASSOCIATED: Final = "event-streams-associated-partitions-changed"
GAP: Final = "x-opt-gateway-gap"
_DELIVERY_COUNT: Final = 4
_MAX_ANNOTATIONS: Final = 64 * 1024
"""Bytes of message annotations that receivers may bring an event to, unless it has more itself."""


def with_partitions(data: bytes, partitions: Iterable[int]) -> bytes:
    """`data` with the list of associated partitions (ES 4.6.5: an array of symbols)."""
    names = Array("symbol", tuple(Symbol(str(partition)) for partition in partitions))
    layout = sections.walk(data)
    edited = _put(data[layout.da : layout.ma], sections.DELIVERY_ANNOTATIONS, ASSOCIATED, encode(names))
    return sections.splice(data, layout, da=edited)


def with_gap(data: bytes) -> bytes:
    """`data` with the annotation that retention has deleted events before it (KM-8)."""
    layout = sections.walk(data)
    edited = _put(data[layout.ma : layout.bare], sections.MESSAGE_ANNOTATIONS, GAP, encode(True))
    return sections.splice(data, layout, ma=edited)


def redelivered(
    event: EncodedEvent, *, failed: bool, annotations: bytes | None = None, counters: ClusterCounters | None = None
) -> EncodedEvent:
    """The event as it is delivered next on the same link (KM-12).

    `annotations` (an encoded map) that would bring those of the event above 64 KiB are left out, and counted in
    `counters`.
    """
    data, failures = event.data, event.failures
    if failed:
        failures += 1
        data = _with_count(data, failures)
    if annotations:
        merged = _merged(data, annotations)
        if merged is not None:
            data = merged
        elif counters is not None:
            counters.annotations_refused += 1
    return EncodedEvent(data, event.partition, event.offset, event.attempts + 1, failures, event.time)


def _with_count(data: bytes, failures: int) -> bytes:
    """The message with this delivery-count; unchanged where its header cannot be decoded."""
    layout = sections.walk(data)
    fields = header_fields(data, layout)
    if fields is None:
        return data
    fields += [None] * (_DELIVERY_COUNT + 1 - len(fields))
    fields[_DELIVERY_COUNT] = Uint(failures)
    return sections.section(sections.HEADER, fields) + data[layout.da :]


def _merged(data: bytes, annotations: bytes) -> bytes | None:
    """The message with a receiver's annotations; None where those would be too large."""
    layout = sections.walk(data)
    section, changes = data[layout.ma : layout.bare], decode_all(annotations)
    if not isinstance(changes, dict):
        return data
    put = {str(key): encode(value) for key, value in changes.items() if isinstance(key, str) and key.isascii()}
    edited = sections.edit_map(section, put=put, code=sections.MESSAGE_ANNOTATIONS) or b""
    if len(edited) > max(_MAX_ANNOTATIONS, len(section)):
        return None
    return sections.splice(data, layout, ma=edited)


def _put(section: bytes, code: int, name: str, value: bytes) -> bytes:
    return sections.edit_map(section, put={name: value}, code=code) or b""
