"""The positions of a terminus: the first event of each partition that is not done (KM-11, KM-12). Pure.

All events before the position are done: accepted, given up, or not selected by the filter. Later events may be done as
well, but do not move the position before all earlier ones are. So a link that resumes at the position repeats some
events and misses none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from typing import Final

from bridges.kafka.records.event import EncodedEvent

_NOTHING: Final = deque[int]()
_NOBODY: Final = set[int]()


class Progress:
    """The offsets of each partition that were sent and are not done, oldest first."""

    __slots__ = ("_done", "_sent")

    def __init__(self) -> None:
        self._sent: Final[dict[int, deque[int]]] = {}
        self._done: Final[dict[int, set[int]]] = {}

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

    def after(self, partition: int, offsets: Collection[int]) -> int | None:
        """The position if these offsets were done as well; None if nothing was sent."""
        done, position = self._done.get(partition, ()), None
        for offset in self._sent.get(partition, ()):
            if offset not in offsets and offset not in done:
                return offset
            position = offset + 1
        return position

    def position(self, partition: int, read: int) -> int:
        """The offset at which another link would resume; `read`: the next offset that this link reads."""
        sent_offsets = self._sent.get(partition)
        return sent_offsets[0] if sent_offsets else read
