"""Cookies that are too long (KM-23): their content is stored in shared state, and a signed reference is sent.

Pure: a cookie that must be stored before its message is sent is added to `pending`; a response whose cookie must be
fetched first raises `CookieNotLoaded`. The caller uses the shared state and tries again. The stored value is a token,
signed or sealed for a purpose of its own, and the reference contains its digest: write access to the store does not
allow to forge or exchange one, and a stored value cannot be used as a cookie. Layout: docs/cookies.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple

from gateway.errors import AmqpError
from gateway.response.cookies.cookie import Cookie, CookieReference
from gateway.response.cookies.epoch_cache import EpochCache
from gateway.response.cookies.keys import STORED, BadToken, KeyRing, Purpose
from gateway.response.cookies.maker import CookieMaker
from gateway.response.cookies.reader import CookieReader, open_token
from gateway.response.cookies.token_layout import NAME_BYTES

MAX_STORED: Final = 16_384
"""Maximum bytes of a stored cookie."""
_DIGEST_BYTES: Final = 16
_REMEMBERED: Final = 2048
Refusal = Callable[[BadToken], AmqpError]


class PendingCookie(NamedTuple):
    """An entry to store in shared state until `until_ms` before the message is sent; then call `stored`."""

    key: str
    value: bytes
    until_ms: int
    stored: Callable[[], None]


class CookieNotLoaded(Exception):
    """The value at `key` is needed: pass it to `load` (empty if there is none), and try again.

    `load` raises `BadToken`, which `refuse` turns into the error for the peer.
    """

    def __init__(self, key: str, load: Callable[[bytes, int], None], refuse: Refusal) -> None:
        super().__init__(key)
        self.key: Final = key
        self.load: Final = load
        self.refuse: Final = refuse


class CookieStore:
    """Stores cookies of more than `limit` bytes for the makers of one ring, and resolves references."""

    def __init__(
        self, ring: KeyRing, limit: int | None = None, token_bytes: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self._ring, self.limit, self._token_bytes = ring, limit, token_bytes
        self.pending: list[PendingCookie] = []
        """The cookies to store before the present message is sent; the caller empties the list."""
        self._known: dict[tuple[Purpose, Cookie], bytes] = {}
        self._fetched: EpochCache[bytes, Cookie] = EpochCache()

    def reference_for(self, cookie: Cookie, purpose: Purpose, token: Callable[[bytes], bytes]) -> bytes:
        """The token of a reference to a long cookie; `token` makes it.

        Equal cookies share one reference once it is stored, except those with a limit of uses.
        """
        known = self._known.get((purpose, cookie))
        if known is not None:
            return known
        value = CookieMaker(self._ring, cookie.scope, cookie.link_target, STORED, most=MAX_STORED).make(cookie)
        name = self._token_bytes(NAME_BYTES)
        made = token(name + _digest(value))

        def stored() -> None:
            if cookie.uses is None:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[purpose, cookie] = made

        self.pending.append(PendingCookie(_key(name), value, cookie.expiry_ms, stored))
        return made

    def resolve(self, found: CookieReference, now_ms: int, refuse: Refusal) -> Cookie:
        """The whole cookie of a reference; raises `CookieNotLoaded` if it must be fetched first."""
        cookie = self._fetched.at(self._ring.epoch(now_ms)).get(found.reference)
        if cookie is None:
            raise CookieNotLoaded(
                _key(found.reference[:NAME_BYTES]), lambda value, at: self._load(found, value, at), refuse
            )
        return cookie

    def _load(self, found: CookieReference, value: bytes, now_ms: int) -> None:
        if not value:
            raise BadToken("not in the store")
        if _digest(value) != found.reference[NAME_BYTES:]:
            raise BadToken("changed in the store")
        cookie = open_token(self._ring, value, now_ms, STORED, most=MAX_STORED)
        if cookie[:2] != found.cookie[:2] or cookie.expiry_ms != found.cookie.expiry_ms:
            raise BadToken("changed in the store")
        self._fetched.at(self._ring.epoch(now_ms))[found.reference] = cookie


def open_or_reference(reader: CookieReader, data: bytes, now_ms: int) -> tuple[Cookie, CookieReference | None]:
    """As `CookieReader.open`; of a reference only scope, link target and expiry are known yet."""
    try:
        return reader.open(data, now_ms), None
    except CookieReference as found:
        return found.cookie, found


def _key(name: bytes) -> str:
    return f"cookie:{name.hex()}"


def _digest(value: bytes) -> bytes:
    return sha256(value).digest()[:_DIGEST_BYTES]
