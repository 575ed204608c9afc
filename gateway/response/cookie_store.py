"""Cookies too long to travel (KM-23): what they say is kept in shared state, and a signed reference travels.

Pure: a message whose cookie has to be kept first leaves what to keep in `pending`; a response whose cookie is still
to be fetched raises `Unfetched`. Who talks to the store does so and comes again. What is kept is a token itself,
signed or sealed under a purpose of its own, and the reference names its digest: whoever can write to the store
cannot make one, exchange it for another, or use what is read there as a cookie. Layout: docs/cookies.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from hashlib import sha256
from typing import Final, NamedTuple

from gateway.errors import AmqpError
from gateway.response.cookie import NAME_BYTES, Cookie, CookieMaker, CookieReader, CookieReference, open_token
from gateway.response.epoch_cache import EpochCache
from gateway.response.keys import STORED, BadToken, KeyRing, Purpose

MAX_KEPT: Final = 16_384
"""Bytes of what is kept for one cookie."""
_DIGEST_BYTES: Final = 16
_REMEMBERED: Final = 2048
Refusal = Callable[[BadToken], AmqpError]


class PendingCookie(NamedTuple):
    """What has to be in the store, until `until_ms` at least, before the message goes; then call `kept`."""

    key: str
    value: bytes
    until_ms: int
    kept: Callable[[], None]


class CookieNotLoaded(Exception):
    """The value at `key` is needed: give it to `load`, empty if there is none, and ask again.

    `load` raises `BadToken`, for which `refuse` makes what the peer is told.
    """

    def __init__(self, key: str, load: Callable[[bytes, int], None], refuse: Refusal) -> None:
        super().__init__(key)
        self.key: Final = key
        self.load: Final = load
        self.refuse: Final = refuse


class CookieStore:
    """Keeps for the makers of one ring what is longer than `limit` bytes; fetches whatever a reference names."""

    def __init__(
        self, ring: KeyRing, limit: int | None = None, token_bytes: Callable[[int], bytes] = secrets.token_bytes
    ) -> None:
        self._ring, self.limit, self._token_bytes = ring, limit, token_bytes
        self.pending: list[PendingCookie] = []
        """What the message just made needs; whoever sends it takes it out."""
        self._known: dict[tuple[Purpose, Cookie], bytes] = {}
        self._fetched: EpochCache[bytes, Cookie] = EpochCache()

    def short(self, cookie: Cookie, purpose: Purpose, token: Callable[[bytes], bytes]) -> bytes:
        """What travels instead of a long cookie; `token` makes one of a reference.

        Cookies that are equal share one reference, once it is kept; those with a limit of uses never are.
        """
        known = self._known.get((purpose, cookie))
        if known is not None:
            return known
        value = CookieMaker(self._ring, cookie.scope, cookie.link_target, STORED, most=MAX_KEPT).make(cookie)
        name = self._token_bytes(NAME_BYTES)
        made = token(name + _digest(value))

        def kept() -> None:
            if cookie.uses is None:
                if len(self._known) >= _REMEMBERED:
                    self._known.clear()
                self._known[purpose, cookie] = made

        self.pending.append(PendingCookie(_key(name), value, cookie.expiry_ms, kept))
        return made

    def resolve(self, found: CookieReference, now_ms: int, refuse: Refusal) -> Cookie:
        """The whole cookie that a reference stands for; raises `Unfetched` where it has to be fetched first."""
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
        cookie = open_token(self._ring, value, now_ms, STORED, most=MAX_KEPT)
        if cookie[:2] != found.cookie[:2] or cookie.expiry_ms != found.cookie.expiry_ms:
            raise BadToken("changed in the store")
        self._fetched.at(self._ring.epoch(now_ms))[found.reference] = cookie


def partly(reader: CookieReader, data: bytes, now_ms: int) -> tuple[Cookie, CookieReference | None]:
    """As `Reader.open`; of a reference only scope, link target and expiry are known yet."""
    try:
        return reader.open(data, now_ms), None
    except CookieReference as found:
        return found.cookie, found


def _key(name: bytes) -> str:
    return f"cookie:{name.hex()}"


def _digest(value: bytes) -> bytes:
    return sha256(value).digest()[:_DIGEST_BYTES]
