"""Makes cookies and reply-to tokens: encoding, signing or sealing (KM-23, A31)."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final, Protocol

from gateway.response.cookies.cookie import Cookie, Uses, expiry_of, too_long
from gateway.response.cookies.keys import COOKIE, MAC_BYTES, KeyRing, Purpose
from gateway.response.cookies.token_layout import (
    ADDRESS,
    EXPIRY_BYTES,
    INNER_COOKIE,
    INNER_TARGET,
    MAX_TOKEN,
    NONCE_BYTES,
    PLAIN_BYTES,
    REFERENCE,
    USES,
    VERSION,
)


class CookieOverflow(Protocol):
    """Stores cookies that are too long for a token (`cookie_store.CookieStore`)."""

    @property
    def limit(self) -> int | None: ...
    def reference_for(self, cookie: Cookie, purpose: Purpose, token: Callable[[bytes], bytes]) -> bytes: ...


class CookieMaker:
    """Makes the cookies or reply-to tokens of one crossing, signed or sealed according to the ring."""

    __slots__ = (
        "_begin", "_crossing", "_mac", "_most", "_overflow", "_plain", "_purpose", "_room", "_seal", "_shared",
        "_token_bytes", "_uses",
    )  # fmt: skip

    def __init__(
        self,
        ring: KeyRing,
        scope: str,
        link_target: str,
        purpose: Purpose = COOKIE,
        *,
        uses: int | None = None,
        overflow: CookieOverflow | None = None,
        most: int = MAX_TOKEN,
        token_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """`uses`: the limit of responses of each cookie of `issue`; None: no limit.

        Tokens of more than `most` bytes are refused; those above the limit of `overflow`, if it has one, are stored.
        """
        signer = ring.signer(purpose)
        self._crossing = scope, link_target
        self._uses, self._token_bytes = uses, token_bytes
        self._shared = template(ring, scope, link_target)
        self._mac, self._begin = signer.mac, signer.begin
        self._seal = ring.sealer(purpose).seal if ring.sealing else None
        self._plain = bytes((VERSION, ADDRESS)) + self._shared
        self._purpose: Final = purpose
        self._overflow = None if overflow is None or overflow.limit is None else overflow
        self._most = most if overflow is None or overflow.limit is None else overflow.limit
        # The longest address for which `make` needs no general form; -1 where tokens are sealed.
        self._room = -1 if ring.sealing else self._most - MAC_BYTES - PLAIN_BYTES - len(self._plain)

    def issue(
        self, address: str | None, expiry_ms: int, inner_cookie: bytes | None = None, inner_target: str | None = None
    ) -> bytes:
        """The token of a new cookie for `address`; `expiry_ms` and `inner_*` as in `Cookie`."""
        uses = None if self._uses is None else Uses(self._uses, self._token_bytes(NONCE_BYTES))
        scope, link_target = self._crossing
        return self.make(Cookie(scope, link_target, address, expiry_ms, inner_cookie, inner_target, uses))

    def make(self, cookie: Cookie) -> bytes:
        """The token of a cookie with the maker's scope and target, and an expiry of `expiry_of`."""
        _, _, address, expiry_ms, inner_cookie, inner_target, uses = cookie
        if address is None or inner_cookie is not None or inner_target is not None or uses is not None:
            return self._make(cookie)
        text = address.encode()
        size = len(text)
        if size > self._room:
            return self._make(cookie)
        data = b"%b%b%b" % (self._plain, (expiry_ms << 16 | size).to_bytes(8, "big"), text)
        state = self._begin()
        state.update(data)
        return data + state.finalize()[:MAC_BYTES]

    def _make(self, cookie: Cookie) -> bytes:
        """The general form: sealed tokens, those with further fields, and long ones."""
        token = self._token(*_own_part(cookie))
        if len(token) <= self._most:
            return token
        if self._overflow is None:
            raise too_long()
        when = cookie.expiry_ms.to_bytes(EXPIRY_BYTES, "big")
        return self._overflow.reference_for(
            cookie, self._purpose, lambda reference: self._token(REFERENCE, when + reference)
        )

    def _token(self, flags: int, rest: bytes) -> bytes:
        if self._seal is None:
            data = b"\x01%c%b%b" % (flags, self._shared, rest)
            return data + self._mac(data)
        return self._seal(b"%c%b%b" % (flags, self._shared[1 + self._shared[0] :], rest))


def template(ring: KeyRing, scope: str, link_target: str) -> bytes:
    """The bytes that all cookies of one crossing share after version and flags."""
    key_id = ring.active.encode()
    return bytes([len(key_id)]) + key_id + _field(scope.encode()) + _field(link_target.encode())


def _own_part(cookie: Cookie) -> tuple[int, bytes]:
    """The flags, and the fields after scope and link target."""
    _, _, address, expiry_ms, inner_cookie, inner_target, uses = cookie
    flags = 0
    rest = expiry_ms.to_bytes(EXPIRY_BYTES, "big")
    if address is not None:
        flags = ADDRESS
        rest += _field(address.encode())
    if inner_cookie is not None:
        flags |= INNER_COOKIE
        rest += _field(inner_cookie)
    if inner_target is not None:
        flags |= INNER_TARGET
        rest += _field(inner_target.encode())
    if uses is not None:
        flags |= USES
        rest += uses.limit.to_bytes(2, "big") + uses.nonce
    return flags, rest


def _field(value: bytes) -> bytes:
    if len(value) > MAX_TOKEN:
        raise too_long()
    return len(value).to_bytes(2, "big") + value


def seal(ring: KeyRing, cookie: Cookie, purpose: Purpose = COOKIE) -> bytes:
    """Make a single token; a `CookieMaker` makes many for one crossing."""
    within = cookie._replace(expiry_ms=expiry_of(cookie.expiry_ms, None))
    return CookieMaker(ring, cookie.scope, cookie.link_target, purpose).make(within)
