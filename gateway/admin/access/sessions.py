"""Sessions of browsers: a random cookie stands for a token that was checked once. Pure; bounded."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final, NamedTuple

from gateway.admin.access.callers import digest_of

LIFETIME: Final = 12 * 3600.0
"""Seconds after which a browser has to log in again."""
MOST: Final = 1000
"""Sessions at a time; the oldest ends."""
_BYTES: Final = 32


class _Session(NamedTuple):
    token: bytes
    """The digest of the token."""
    until: float


class BrowserSessions:
    """The sessions of one process; a restart ends them."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` returns seconds."""
        self._clock: Final = clock
        self._known: Final[OrderedDict[bytes, _Session]] = OrderedDict()

    def begin(self, token: bytes) -> str:
        """Begin a session of the token with this digest; returns the value of its cookie."""
        cookie = secrets.token_urlsafe(_BYTES)
        self._known[digest_of(cookie.encode())] = _Session(token, self._clock() + LIFETIME)
        if len(self._known) > MOST:
            self._known.popitem(last=False)
        return cookie

    def token(self, cookie: str) -> bytes | None:
        """The digest of the token for which a cookie stands."""
        key = digest_of(cookie.encode())
        found = self._known.get(key)
        if found is not None and self._clock() >= found.until:
            del self._known[key]
            return None
        return None if found is None else found.token

    def end(self, cookie: str) -> None:
        """End a session."""
        self._known.pop(digest_of(cookie.encode()), None)
