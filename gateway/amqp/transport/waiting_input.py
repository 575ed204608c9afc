"""The input of a connection that waits for later turns of the loop, in slices that take about a millisecond each."""

from __future__ import annotations

from gateway.amqp.transport.slices import SLICE, next_slice


class WaitingInput:
    """Bytes in the order in which they came."""

    __slots__ = ("_taken", "data", "slice")

    def __init__(self) -> None:
        self.slice = SLICE
        """The bytes that are processed at once."""
        self.data = b""
        """All that it holds, with what has been taken of it."""
        self._taken = 0

    def add(self, data: bytes) -> None:
        """Let further bytes wait."""
        self.data, self._taken = self.data[self._taken :] + data, 0

    def take(self) -> bytes:
        """The next slice."""
        start, self._taken = self._taken, self._taken + self.slice
        data = self.data[start : self._taken]
        if self._taken >= len(self.data):
            self.clear()
        return data

    def took(self, seconds: float) -> None:
        """A slice took so long."""
        self.slice = next_slice(self.slice, seconds)

    def clear(self) -> None:
        """Forget what waits."""
        self.data, self._taken = b"", 0
