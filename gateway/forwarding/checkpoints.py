"""How far a bridge has read a log of somebody else's: the offset of the last event done with, per partition (KM-24).

Offsets are kept and given back as they came; nothing is computed from them (ES-5.1.1-2). An event counts when all
before it in its partition are done with, so that whoever goes on repeats some and misses none. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

WHOLE: Final = ""
"""Stands for the partition of a log that names none."""


class Checkpoints:
    """The marks of one bridge; `changed` since they were written last."""

    def __init__(self, kept: Mapping[str, str]) -> None:
        self._marks: Final = dict(kept)
        self._out: dict[str, deque[tuple[int, str]]] = {}
        self._done: dict[str, set[int]] = {}
        self.changed: dict[str, str] = {}

    def begin(self) -> None:
        """A new link: what the old one had brought and is not done with comes again."""
        self._out, self._done = {}, {}

    def of(self, partition: str) -> str | None:
        """The offset of the last event done with; None: there was none."""
        return self._marks.get(partition) or None

    def all(self) -> dict[str, str]:
        """The offsets of the last events done with, by partition."""
        return {partition: offset for partition, offset in self._marks.items() if offset}

    def __bool__(self) -> bool:
        return any(self._marks.values())

    def forget(self) -> None:
        """The log is another one now: offsets of the old one say nothing of it."""
        self.begin()
        self.changed = dict.fromkeys(self._marks, "")
        self._marks.update(self.changed)

    def came(self, serial: int, partition: str, offset: str) -> None:
        """An event, in the order of its partition."""
        if partition not in self._out:
            self._out[partition], self._done[partition] = deque(), set()
        self._out[partition].append((serial, offset))

    def done(self, serial: int, partition: str) -> None:
        """Nothing more is owed for it; without effect for an event of an earlier link."""
        out, done = self._out.get(partition), self._done.get(partition)
        if not out or done is None or serial < out[0][0]:
            return
        done.add(serial)
        while out and out[0][0] in done:
            first, offset = out.popleft()
            done.remove(first)
            self._marks[partition] = self.changed[partition] = offset

    def take_changed(self) -> dict[str, str]:
        """What is to be written now."""
        changed, self.changed = self.changed, {}
        return changed
