"""Small edits to an event on its way to one link: redelivery, partition announcements, gaps.

Events are encoded once, whatever the number of links; these edits are for the few that need one. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from bridges.kafka.counters import ClusterCounters
from gateway.amqp.codec.codec import decode_all, encode
from gateway.amqp.codec.types import Array, Symbol, Uint
from gateway.amqp.message import sections
from gateway.errors import AmqpError

ASSOCIATED: Final = "event-streams-associated-partitions-changed"
GAP: Final = "x-opt-gateway-gap"
_DELIVERY_COUNT: Final = 4
_MOST_ANNOTATIONS: Final = 64 * 1024
"""Bytes of message annotations that receivers may bring an event to, if it has not more itself."""


class EditedEvent(NamedTuple):
    """An encoded event and where it comes from; `attempts` and `failures` count its redeliveries.

    `time` is when it was added, in milliseconds since 1970; -1: unknown.
    """

    data: bytes
    partition: int
    offset: int
    attempts: int = 0
    failures: int = 0
    time: int = -1


def announced(data: bytes, partitions: Iterable[int]) -> bytes:
    """`data` with the list of associated partitions (ES 4.6.5: an array of symbols)."""
    names = Array("symbol", tuple(Symbol(str(partition)) for partition in partitions))
    layout = sections.walk(data)
    edited = _put(data[layout.da : layout.ma], sections.DELIVERY_ANNOTATIONS, ASSOCIATED, encode(names))
    return sections.splice(data, layout, da=edited)


def after_gap(data: bytes) -> bytes:
    """`data` flagged: events before it were lost to retention (KM-8)."""
    layout = sections.walk(data)
    edited = _put(data[layout.ma : layout.bare], sections.MESSAGE_ANNOTATIONS, GAP, encode(True))
    return sections.splice(data, layout, ma=edited)


def again(
    event: EditedEvent, *, failed: bool, annotations: bytes | None = None, counters: ClusterCounters | None = None
) -> EditedEvent:
    """The event for its next delivery on the same link: KM-12.

    Annotations that would make its own larger than 64 KiB are left out, and counted in `counters`.
    """
    data, failures = event.data, event.failures
    if failed:
        failures += 1
        data = _counted(data, failures)
    if annotations:
        merged = _merged(data, annotations)
        if merged is not None:
            data = merged
        elif counters is not None:
            counters.annotations_refused += 1
    return EditedEvent(data, event.partition, event.offset, event.attempts + 1, failures, event.time)


def header_fields(data: bytes, layout: sections.SectionOffsets) -> list[Any] | None:
    """The header's fields, as many as there are; None where they cannot be decoded: any producer may write that."""
    try:
        return list(sections.header(data, layout))
    except AmqpError:
        return None


def _counted(data: bytes, failures: int) -> bytes:
    """The message with this delivery-count; as it is where its header cannot be read."""
    layout = sections.walk(data)
    fields = header_fields(data, layout)
    if fields is None:
        return data
    fields += [None] * (_DELIVERY_COUNT + 1 - len(fields))
    fields[_DELIVERY_COUNT] = Uint(failures)
    return sections.section(sections.HEADER, fields) + data[layout.da :]


def _merged(data: bytes, annotations: bytes) -> bytes | None:
    """With what a receiver has annotated; None: that would be too much."""
    layout = sections.walk(data)
    section, changes = data[layout.ma : layout.bare], decode_all(annotations)
    if not isinstance(changes, dict):
        return data
    put = {str(key): encode(value) for key, value in changes.items() if isinstance(key, str) and key.isascii()}
    edited = sections.edit_map(section, put=put, code=sections.MESSAGE_ANNOTATIONS) or b""
    if len(edited) > max(_MOST_ANNOTATIONS, len(section)):
        return None
    return sections.splice(data, layout, ma=edited)


def _put(section: bytes, code: int, name: str, value: bytes) -> bytes:
    return sections.edit_map(section, put={name: value}, code=code) or b""
