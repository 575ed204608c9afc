"""Changes to an event for one link: redelivery, announced partitions, gaps, requests of other scopes. Pure.

Events are encoded once for all links; few of them need a change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from functools import lru_cache
from operator import itemgetter
from typing import Final

from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.records.event import EncodedEvent, header_fields
from gateway.amqp.codec.codec import decode_all, encode
from gateway.amqp.codec.types import Array, Symbol, Uint
from gateway.amqp.link.outcomes import Modified
from gateway.amqp.message import sections

ASSOCIATED: Final = "event-streams-associated-partitions-changed"
GAP: Final = "x-opt-gateway-gap"
_DELIVERY_COUNT: Final = 4
_MAX_ANNOTATIONS: Final = 64 * 1024
"""The most bytes of message annotations of an event with those of receivers, unless it has more itself."""
Rewrite = Callable[[EncodedEvent, Callable[[], None]], bytes | None]
"""A request of another scope (X-5, KM-22) as the message for the reader's scope.

None: not known yet, and the callable is called when it is.
"""
_offset: Final = itemgetter(2)


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
    """The event for its next delivery on the same link (KM-12).

    `annotations`: the encoded map of a modified outcome; it is ignored, and counted in `counters`, if the event would
    then have more than 64 KiB of annotations.
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


def modified(event: EncodedEvent, outcome: Modified, counters: ClusterCounters) -> EncodedEvent:
    """The event for its next delivery after a modified outcome; one that was released is sent as it is."""
    return redelivered(event, failed=outcome.failed, annotations=outcome.annotations, counters=counters)


def rewritten(
    rewrite: Rewrite, events: list[EncodedEvent], chosen: list[EncodedEvent], after: int, known: Callable[[], None]
) -> tuple[list[EncodedEvent], int, bool]:
    """The chosen events as messages for the reader's scope, up to the first one that is not known yet.

    Returns these events, the index in `events` of the next one (`after` if all are known), and whether one is not
    known yet; `known` is called when it is.
    """
    for at, event in enumerate(chosen):
        data = rewrite(event, known)
        if data is None:
            return chosen[:at], bisect_left(events, event.offset, key=_offset), True
        if data is not event.data:
            chosen[at] = event._replace(data=data)
    return chosen, after, False


def _with_count(data: bytes, failures: int) -> bytes:
    """The message with this delivery-count; unchanged if its header cannot be decoded."""
    layout = sections.walk(data)
    fields = header_fields(data, layout)
    if fields is None:
        return data
    fields += [None] * (_DELIVERY_COUNT + 1 - len(fields))
    fields[_DELIVERY_COUNT] = Uint(failures)
    return sections.section(sections.HEADER, fields) + data[layout.da :]


def _merged(data: bytes, annotations: bytes) -> bytes | None:
    """The message with a receiver's annotations; None: they would be too large."""
    layout = sections.walk(data)
    section, put = data[layout.ma : layout.bare], _changes(annotations)
    if put is None:
        return data
    edited = sections.edit_map(section, put=put, code=sections.MESSAGE_ANNOTATIONS) or b""
    if len(edited) > max(_MAX_ANNOTATIONS, len(section)):
        return None
    return sections.splice(data, layout, ma=edited)


@lru_cache(maxsize=4)
def _changes(annotations: bytes) -> dict[str, bytes] | None:
    """The encoded values to put, by key; None: it is no map. One outcome may be that of very many events."""
    changes = decode_all(annotations)
    if not isinstance(changes, dict):
        return None
    return {str(key): encode(value) for key, value in changes.items() if isinstance(key, str) and key.isascii()}


def _put(section: bytes, code: int, name: str, value: bytes) -> bytes:
    return sections.edit_map(section, put={name: value}, code=code) or b""
