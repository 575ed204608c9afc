"""When to look for reports of records: when librdkafka says so, or, where it cannot, each millisecond."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Protocol

_INTERVAL: Final = 0.001
_ENOUGH: Final = 64
"""Bytes that are read at once; librdkafka writes one, and the next when the reports were taken."""


class Wakeups(Protocol):
    """Calls a function on the loop when there may be reports."""

    def expect(self) -> None:
        """Records are in flight."""

    def close(self) -> None:
        """Call it no more."""


class PipeWakeups:
    """librdkafka's thread writes to a pipe that the loop reads."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None], tell: Callable[[int], None]) -> None:
        """`tell` gives librdkafka the file to write to, or -1: none any more."""
        self._loop: Final = loop
        self._wake: Final = wake
        self._tell: Final = tell
        self._end, self._start = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._closed = False
        loop.add_reader(self._end, self._read)
        tell(self._start)
        os.write(self._start, b"\0")  # librdkafka tells of nothing while something is there that nobody has taken

    def _read(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._end, _ENOUGH)
        self._wake()

    def expect(self) -> None:
        """See `Wakeups`: librdkafka knows."""

    def close(self) -> None:
        """See `Wakeups`; a client may be closed with its cluster, and again when its transaction ends."""
        if self._closed:  # the numbers of the files are those of others now
            return
        self._closed = True
        self._tell(-1)
        self._loop.remove_reader(self._end)
        os.close(self._end)
        os.close(self._start)


class TimerWakeups:
    """Calls the function each millisecond, while it says that records are in flight."""

    def __init__(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> None:
        self._loop: Final = loop
        self._wake: Final = wake
        self._timer: asyncio.TimerHandle | None = None

    def expect(self) -> None:
        """See `Wakeups`."""
        if self._timer is None:
            self._timer = self._loop.call_later(_INTERVAL, self._due)

    def _due(self) -> None:
        self._timer = None
        self._wake()

    def close(self) -> None:
        """See `Wakeups`."""
        if self._timer is not None:
            self._timer.cancel()
