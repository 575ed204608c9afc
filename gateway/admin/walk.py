"""Walks over connections and links in steps that are short enough for the event loop."""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.admin.live.credit import LinkKey
    from gateway.amqp.link.link import Link
    from gateway.amqp.transport.connection import Connection
    from gateway.observability.roster import Entry, Roster

STEP: Final = 200
"""Connections or links that are looked at in one turn of the loop."""
_serial: Final = attrgetter("serial")


async def connections_after(roster: Roster[Connection], number: int) -> AsyncIterator[Entry[Connection]]:
    """The connections after this number; others may come and go meanwhile."""
    while some := list(islice(roster.after(number), STEP)):
        for entry in some:
            yield entry
        number = some[-1].number
        await asyncio.sleep(0)


async def links_after(
    roster: Roster[Connection], key: LinkKey, *, step: int = STEP, pause: float = 0.0
) -> AsyncIterator[tuple[LinkKey, Link]]:
    """The links after this one, by connection and in the order of their attaches.

    `step` of them are looked at in one turn of the loop; `pause`: seconds between two steps.
    """
    while some := list(islice(_links(roster, key), step)):
        for each in some:
            if each[1] is not None:
                yield each[0], each[1]
        key = some[-1][0]
        await asyncio.sleep(pause if len(some) == step else 0)


def _links(roster: Roster[Connection], key: LinkKey) -> Iterator[tuple[LinkKey, Link | None]]:
    """Links after a key; a connection without any comes once, so that many of them take several steps."""
    number, serial = key
    if (entry := roster.get(number)) is not None:
        yield from _of(entry, serial)
    for entry in roster.after(number):
        yield (entry.number, 0), None
        yield from _of(entry, 0)


def _of(entry: Entry[Connection], serial: int) -> Iterator[tuple[LinkKey, Link]]:
    engine = entry.item.engine
    links = [] if engine is None else engine.links
    for link in islice(links, bisect_right(links, serial, key=_serial) if serial else 0, None):
        yield (entry.number, link.serial), link


def find_link(roster: Roster[Connection], key: LinkKey) -> Link | None:
    """The link with this number, if it is still attached."""
    entry = roster.get(key[0])
    if entry is None:
        return None
    return next((link for _, link in _of(entry, key[1] - 1) if link.serial == key[1]), None)
