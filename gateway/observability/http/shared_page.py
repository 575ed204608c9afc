"""A page that takes a while to make, made once for all who ask for it at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Final

from gateway.tasks import TimeSlice

_PIECE: Final = 65_536
"""Bytes that are sent at a time."""


class SharedPage:
    """One page is made at a time, however many ask: it is the only one that shares the loop with messages.

    Nobody gets a page that was begun before the request, so its values are never older than that.
    """

    def __init__(self, pieces: Callable[[], Iterable[bytes | None]]) -> None:
        """`pieces()` makes the page; after each piece, or None, other work may be done."""
        self._pieces: Final = pieces
        self._making: Final = asyncio.Lock()
        self._begun = self._made = self._waiting = 0
        """Numbers of the page that was begun last, and of the one in `_page`; how many wait for one."""
        self._page = b""

    async def get(self) -> bytes:
        """The next page that is begun."""
        wanted = self._begun + 1
        self._waiting += 1
        try:
            async with self._making:
                if self._made < wanted:
                    await asyncio.sleep(0)  # for all who ask in this turn of the loop
                    self._begun += 1
                    self._page = await self._make()
                    self._made = self._begun
                return self._page
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._page = b""

    async def _make(self) -> bytes:
        turn, found = TimeSlice(), list[bytes]()
        for piece in self._pieces():
            if piece:
                found.append(piece)
            await turn.pause()
        return b"".join(found)


async def in_pieces(page: bytes) -> AsyncIterator[bytes]:
    """A page as it is sent: to a client that reads slowly, no more at a time than the socket takes."""
    for first in range(0, len(page), _PIECE):
        yield page[first : first + _PIECE]
