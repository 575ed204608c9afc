"""Requests of other scopes among the events that a link is about to send (X-5, KM-22). Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from operator import itemgetter
from typing import Final

from bridges.kafka.records.event import EncodedEvent

Rewrite = Callable[[EncodedEvent, Callable[[], None]], bytes | None]
"""The message as the reader may get it; None: not known yet, and the callable is called when it is."""
_offset: Final = itemgetter(2)


def rewritten(
    rewrite: Rewrite, events: list[EncodedEvent], chosen: list[EncodedEvent], after: int, known: Callable[[], None]
) -> tuple[list[EncodedEvent], int, bool]:
    """The chosen events as the reader may get them, up to the first one that is not known yet.

    Returns them, the index in `events` of what follows (`after`: if all are known), and whether one is not known yet.
    """
    for at, event in enumerate(chosen):
        data = rewrite(event, known)
        if data is None:
            return chosen[:at], bisect_left(events, event.offset, key=_offset), True
        if data is not event.data:
            chosen[at] = event._replace(data=data)
    return chosen, after, False
