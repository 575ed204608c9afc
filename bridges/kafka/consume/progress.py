"""How far a terminus has got: contiguous acknowledgement per partition (KM-11, KM-12). Pure.

Everything before the position is done with: accepted, given up, or skipped by the filter. Events after it may be done
with as well, but count only when all before them are, so that whoever goes on at the position repeats some and misses
none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Final


class Progress:
    """Which events of each partition are out and not done with, oldest first."""

    __slots__ = ("_done", "_out")

    def __init__(self) -> None:
        self._out: Final[dict[int, deque[int]]] = {}
        self._done: Final[dict[int, set[int]]] = {}

    def sent(self, partition: int, offsets: Iterable[int]) -> None:
        """These were sent for the first time, in the order of the log."""
        out = self._out.get(partition)
        if out is None:
            out = self._out[partition] = deque()
            self._done[partition] = set()
        out.extend(offsets)

    def done(self, partition: int, offset: int) -> None:
        """This one will not be sent again."""
        out, done = self._out.get(partition), self._done.get(partition)
        if not out or done is None or offset < out[0]:
            return  # an outcome that came after the partition had been given away
        if out[0] == offset:
            out.popleft()
            while out and out[0] in done:
                done.remove(out.popleft())
        else:
            done.add(offset)

    def forget(self, partition: int) -> None:
        """Another link goes on with this one."""
        self._out.pop(partition, None)
        self._done.pop(partition, None)

    def position(self, partition: int, read: int) -> int:
        """Where a successor has to begin; `read` is where this link reads next."""
        out = self._out.get(partition)
        return out[0] if out else read
