"""Streams of changes to clients (server-sent events): few, bounded, and without waiting for slow readers."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

STREAMS: Final = 32
"""Streams at a time; further ones are refused."""
OWN: Final = STREAMS // 2
"""Streams of one caller at a time, so that others have some left."""
BEHIND: Final = 4
"""Rounds that a stream may be behind, beside what its socket holds, before it is dropped."""


class ChangeStream:
    """One client's stream."""

    def __init__(self, caller: str, drop: Callable[[], None], allowed: Callable[[], bool]) -> None:
        """`drop` closes the client's connection at once; `allowed`: whether `caller` may still see this."""
        self.caller: Final = caller
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
        self._of: Counter[str] = Counter()
        """How many streams each caller has."""

    def __len__(self) -> int:
        return len(self._open)

    def refusal(self, caller: str) -> tuple[int, str] | None:
        """The HTTP status and the reason why a caller gets no further stream; None: there is room."""
        if self._of[caller] >= OWN:
            return 429, f"{caller} has {OWN} event streams open, its limit; end one of them"
        return (503, f"{STREAMS} event streams are open, the limit of the gateway") if len(self) >= STREAMS else None

    def open(self, caller: str, drop: Callable[[], None], allowed: Callable[[], bool]) -> ChangeStream:
        """A new stream, unless there is a `refusal`."""

        def dropped() -> None:
            self._dropped("event-stream-too-slow")
            drop()

        stream = ChangeStream(caller, dropped, allowed)
        self._open[stream] = None
        self._of[caller] += 1
        return stream

    def remove(self, stream: ChangeStream) -> None:
        """A client has gone."""
        if stream in self._open:
            del self._open[stream]
            self._of[stream.caller] -= 1
            self._of += Counter()  # without those that have none

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
