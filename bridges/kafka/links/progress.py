"""The positions of a terminus: the first event of each partition that is not done (KM-11, KM-12). Pure.

All events before the position are done: accepted, given up, or not selected by the filter. Later events may be done as
well, but do not move the position before all earlier ones are. So a link that resumes at the position repeats some
events and misses none. A transaction stores those later ones with the position, and the link that resumes after it
leaves them out (decision 105).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from typing import Final

from bridges.kafka.common import ahead
from bridges.kafka.common.ahead import Ranges, StoredPosition
from bridges.kafka.records.event import EncodedEvent

_NOTHING: Final = deque[int]()
_NOBODY: Final = set[int]()
_END: Final = 1 << 63
"""Greater than any offset."""


class Progress:
    """The offsets of each partition that were sent and are not done, oldest first."""

    __slots__ = ("_ahead", "_done", "_sent")

    def __init__(self) -> None:
        self._sent: Final[dict[int, deque[int]]] = {}
        self._done: Final[dict[int, set[int]]] = {}
        self._ahead: Final[dict[int, Ranges]] = {}
        """Offsets that earlier links have done, and that this link leaves out."""

    def begin(self, partition: int, done: Ranges) -> None:
        """Leave out events that an earlier link has done."""
        if done:
            self._ahead[partition] = done

    def left(self, partition: int, events: list[EncodedEvent]) -> list[EncodedEvent]:
        """The events without those that an earlier link has done."""
        done = self._ahead.get(partition, ())
        if not events or not done or done[-1].stop <= events[0].offset:
            return events
        return [event for event in events if not ahead.has(done, event.offset)]

    def sent(self, partition: int, offsets: Iterable[int]) -> None:
        """Events were sent for the first time, in the order of the log."""
        sent_offsets = self._sent.get(partition)
        if sent_offsets is None:
            sent_offsets = self._sent[partition] = deque()
            self._done[partition] = set()
        sent_offsets.extend(offsets)

    def done(self, partition: int, offset: int) -> None:
        """An event is done: it will not be sent again."""
        sent_offsets, done = self._sent.get(partition), self._done.get(partition)
        if not sent_offsets or done is None or offset < sent_offsets[0]:
            return  # a late outcome: another link has the partition now
        if sent_offsets[0] == offset:
            sent_offsets.popleft()
            while sent_offsets and sent_offsets[0] in done:
                done.remove(sent_offsets.popleft())
        else:
            done.add(offset)

    def done_all(self, events: Iterable[EncodedEvent]) -> None:
        """`done` for several; mostly they are the oldest ones."""
        last, sent_offsets, done = -1, _NOTHING, _NOBODY
        for event in events:
            partition, offset = event[1], event[2]
            if partition != last:
                last = partition
                sent_offsets, done = self._sent.get(partition, _NOTHING), self._done.get(partition, _NOBODY)
            if sent_offsets and sent_offsets[0] == offset and not done:
                sent_offsets.popleft()
            else:
                self.done(partition, offset)

    def forget(self, partition: int) -> None:
        """Drop a partition that another link has now."""
        self._sent.pop(partition, None)
        self._done.pop(partition, None)
        self._ahead.pop(partition, None)

    def after(self, partition: int, offsets: Collection[int]) -> StoredPosition | None:
        """The position if these offsets were done as well; None if nothing was sent."""
        sent_offsets = self._sent.get(partition)
        if not sent_offsets:
            return None
        done = {*offsets, *self._done[partition]}
        position = next((offset for offset in sent_offsets if offset not in done), sent_offsets[-1] + 1)
        later = (*_runs(sent_offsets, done), *self._ahead.get(partition, ()))
        return StoredPosition(position, ahead.between(ahead.ranges(later), position, _END))

    def position(self, partition: int, read: int) -> int:
        """The offset at which another link would resume; `read`: the next offset that this link reads."""
        sent_offsets = self._sent.get(partition)
        return sent_offsets[0] if sent_offsets else read


def _runs(sent_offsets: Iterable[int], done: Collection[int]) -> Iterator[range]:
    """Events that are done, one after the other; what is between them was not selected."""
    first, last, end = -1, -1, max(done, default=-1)
    for offset in sent_offsets:
        if offset in done:
            first, last = (offset if first < 0 else first), offset
        elif first >= 0:
            yield range(first, last + 1)
            first = -1
        if offset >= end:
            break
    if first >= 0:
        yield range(first, last + 1)
