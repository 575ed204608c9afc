"""Small edits to an event on its way to one link: redelivery, partition announcements, gaps.

Events are encoded once, whatever the number of links; these edits are for the few that need one. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from gateway.amqp import sections
from gateway.amqp.codec import decode_all, encode
from gateway.amqp.types import Array, Symbol, Uint

ASSOCIATED: Final = "event-streams-associated-partitions-changed"
GAP: Final = "x-opt-gateway-gap"
_DELIVERY_COUNT: Final = 4


class Event(NamedTuple):
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


def again(event: Event, *, failed: bool, annotations: bytes | None = None) -> Event:
    """The event for its next delivery on the same link: KM-12."""
    data, failures = event.data, event.failures
    if failed:
        failures += 1
        data = _counted(data, failures)
    if annotations:
        data = _merged(data, annotations)
    return Event(data, event.partition, event.offset, event.attempts + 1, failures, event.time)


def _counted(data: bytes, failures: int) -> bytes:
    layout = sections.walk(data)
    fields: list[Any] = list(sections.header(data, layout))
    fields += [None] * (_DELIVERY_COUNT + 1 - len(fields))
    fields[_DELIVERY_COUNT] = Uint(failures)
    return sections.section(sections.HEADER, fields) + data[layout.da :]


def _merged(data: bytes, annotations: bytes) -> bytes:
    layout = sections.walk(data)
    edited = data[layout.ma : layout.bare]
    changes = decode_all(annotations)
    for key, value in changes.items() if isinstance(changes, dict) else ():
        if isinstance(key, str) and key.isascii():
            edited = _put(edited, sections.MESSAGE_ANNOTATIONS, str(key), encode(value))
    return sections.splice(data, layout, ma=edited)


def _put(section: bytes, code: int, name: str, value: bytes) -> bytes:
    return sections.edit_map(section, put={name: value}, code=code) or b""
