"""The date of every response (RFC 9110, 6.6.1)."""

from __future__ import annotations

import time
from email.utils import formatdate

from uvicorn.server import ServerState


class DatedState(ServerState):
    """uvicorn's server state, which gives every response a date (RFC 9110, 6.6.1)."""

    def __init__(self) -> None:
        self._dated: tuple[int, list[tuple[bytes, bytes]]] = (0, [])
        super().__init__()

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        """The headers of every response."""
        now = int(time.time())
        if self._dated[0] != now:
            self._dated = now, [(b"date", formatdate(now, usegmt=True).encode())]
        return self._dated[1]

    @default_headers.setter
    def default_headers(self, headers: list[tuple[bytes, bytes]]) -> None:
        """Ignored: only uvicorn's own server sets them, which is not used here."""
