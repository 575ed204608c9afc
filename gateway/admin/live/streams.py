"""Streams of changes to clients (server-sent events): few, bounded, and without waiting for slow readers."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

STREAMS: Final = 32
"""Streams at a time; further ones are refused."""
BEHIND: Final = 4
"""Rounds that a stream may be behind, beside what its socket holds, before it is dropped."""


class ChangeStream:
    """One client's stream."""

    def __init__(self, drop: Callable[[], None], allowed: Callable[[], bool]) -> None:
        """`drop` closes the client's connection at once; `allowed`: whether it may still see this."""
        self._drop: Final = drop
        self._allowed: Final = allowed
        self._rounds: Final[asyncio.Queue[bytes | None]] = asyncio.Queue(BEHIND + 1)

    def put(self, data: bytes) -> bool:
        """Add a round; returns whether the stream goes on."""
        if not self._allowed():
            self.end()
            return False
        if self._rounds.qsize() >= BEHIND:
            self._drop()
            return False
        self._rounds.put_nowait(data)
        return True

    def end(self) -> None:
        """End the stream after what it has."""
        if not self._rounds.full():
            self._rounds.put_nowait(None)

    async def read(self) -> AsyncIterator[bytes]:
        """What to send, until the stream ends."""
        while (data := await self._rounds.get()) is not None:
            yield data


class ChangeStreams:
    """The streams of one gateway."""

    def __init__(self, dropped: Callable[[str], None]) -> None:
        """`dropped` gets the reason for each stream that is dropped."""
        self._dropped: Final = dropped
        self._open: Final[dict[ChangeStream, None]] = {}

    def __len__(self) -> int:
        return len(self._open)

    def open(self, drop: Callable[[], None], allowed: Callable[[], bool]) -> ChangeStream | None:
        """A new stream; None: there are too many."""
        if len(self._open) >= STREAMS:
            return None

        def dropped() -> None:
            self._dropped("event-stream-too-slow")
            drop()

        stream = ChangeStream(dropped, allowed)
        self._open[stream] = None
        return stream

    def remove(self, stream: ChangeStream) -> None:
        """A client has gone."""
        self._open.pop(stream, None)

    def publish(self, changes: Iterable[tuple[str, object]]) -> None:
        """Send a round of changes, each a name and a document, to all streams; it is encoded once."""
        data = b"".join(map(_encoded, changes))
        for stream in [*self._open]:
            if not stream.put(data):
                self.remove(stream)

    def close(self) -> None:
        """End all streams."""
        for stream in [*self._open]:
            stream.end()
            self.remove(stream)


def _encoded(change: tuple[str, object]) -> bytes:
    name, document = change
    return f"event: {name}\ndata: {json.dumps(document, ensure_ascii=False)}\n\n".encode()
