"""Positions of a bridge in a log of another container: the offset of the last finished event, per partition (KM-24).

Offsets are stored and sent back as they came; nothing is computed from them (ES-5.1.1-2). An event counts when all
events before it in its partition are finished, so that the next owner may repeat events, but misses none. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

WHOLE: Final = ""
"""The key of a log that names no partitions."""
MAX_PARTITIONS: Final = 10_000
"""Partitions of one log: what a container names is stored, and need not be true."""
MAX_NAME: Final = 256
"""Characters in the name of a partition."""
MAX_OFFSET: Final = 1024
"""Characters of an offset."""


class Checkpoints:
    """The checkpoints of one bridge, and those `changed` since the last write."""

    def __init__(self, stored: Mapping[str, str]) -> None:
        self._offsets: Final = dict(stored)
        self._names: Final = set(stored)
        self._unfinished: dict[str, deque[tuple[int, str]]] = {}
        self._done: dict[str, set[int]] = {}
        self.changed: dict[str, str] = {}

    def begin(self) -> None:
        """A new link: unfinished events of the old one come again."""
        self._unfinished, self._done = {}, {}

    def of(self, partition: str) -> str | None:
        """The offset of the last finished event; None: there was none."""
        return self._offsets.get(partition) or None

    def all(self) -> dict[str, str]:
        """The offsets of the last finished events, by partition."""
        return {partition: offset for partition, offset in self._offsets.items() if offset}

    def __bool__(self) -> bool:
        return any(self._offsets.values())

    def forget(self) -> None:
        """The log was replaced: offsets of the old one are meaningless in it."""
        self.begin()
        self.changed = dict.fromkeys(self._offsets, "")
        self._offsets.update(self.changed)

    def problem(self, partition: str, offset: str) -> str | None:
        """Why the offset of an event cannot be stored; None: it can."""
        if len(partition) > MAX_NAME or len(offset) > MAX_OFFSET:
            return f"a partition's name may have {MAX_NAME} characters, and an offset {MAX_OFFSET}"
        if partition not in self._names and len(self._names) >= MAX_PARTITIONS:
            return f"a bridge stores the offsets of at most {MAX_PARTITIONS} partitions; name one, or a group"
        return None

    def came(self, serial: int, partition: str, offset: str) -> None:
        """An event has come; events of a partition come in its order."""
        if partition not in self._unfinished:
            self._names.add(partition)
            self._unfinished[partition], self._done[partition] = deque(), set()
        self._unfinished[partition].append((serial, offset))

    def done(self, serial: int, partition: str) -> None:
        """An event is finished; without effect for an event of an earlier link."""
        out, done = self._unfinished.get(partition), self._done.get(partition)
        if not out or done is None or serial < out[0][0]:
            return
        done.add(serial)
        while out and out[0][0] in done:
            first, offset = out.popleft()
            done.remove(first)
            self._offsets[partition] = self.changed[partition] = offset

    def take_changed(self) -> dict[str, str]:
        """The checkpoints to write now."""
        changed, self.changed = self.changed, {}
        return changed
