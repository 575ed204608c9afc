"""Which records of a chunk a link wants (ES 5.2); equal selections share what was picked. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from gateway.filters.event_stream import Position

if TYPE_CHECKING:
    from bridges.kafka.chunks import Chunk, Selection
    from bridges.kafka.redelivery import Event


class After(NamedTuple):
    """Events from an offset on that have a later timestamp; time does not follow the order of the log (ES-5.2-5)."""

    position: Position

    def pick(self, chunk: Chunk) -> list[Event]:
        """The events of `chunk` that match, encoded."""
        matches = self.position.matches
        return [chunk.event(found) for found in chunk.messages if matches(found.offset(), found.timestamp()[1])]


def event_selection(position: Position, starts: Mapping[int, int], *, bound: bool) -> Selection | None:
    """What is left of `position` for a link that begins at `starts`; None: nothing.

    A link that takes later partitions, too, from their beginning, has to compare there.
    """
    begun = bound and all(start >= position.first_offset for start in starts.values())
    rest = position._replace(first_offset=0) if begun else position
    return None if rest.first_offset == 0 and rest.after_ms is None else After(rest)
