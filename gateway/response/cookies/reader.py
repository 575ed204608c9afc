"""Opens cookies and reply-to tokens: MAC or seal first, then the fields (KM-23, RA 2.4)."""

from __future__ import annotations

from hmac import compare_digest
from typing import Final

from gateway.response.cookies import encryption
from gateway.response.cookies.cookie import Cookie, CookieReference, Uses, check_expiry, refusal
from gateway.response.cookies.keys import COOKIE, MAC_BYTES, BadToken, KeyRing, Purpose
from gateway.response.cookies.token_layout import (
    ADDRESS,
    EXPIRY_BYTES,
    INNER_COOKIE,
    INNER_TARGET,
    KNOWN_FLAGS,
    MAX_TOKEN,
    MIN_TOKEN,
    NONCE_BYTES,
    PLAIN_BYTES,
    REFERENCE,
    REFERENCE_BYTES,
    USES,
    VERSION,
)

_new: Final = tuple.__new__
_number: Final = int.from_bytes


class CookieReader:
    """Opens the tokens of one purpose.

    Most tokens have the same key, scope and link target as the previous one: these are compared in one piece.
    """

    __slots__ = ("_begin", "_head", "_key_id", "_names", "_purpose", "_ring")

    def __init__(self, ring: KeyRing, purpose: Purpose = COOKIE) -> None:
        self._ring, self._purpose = ring, purpose
        self._head: bytes | tuple[bytes, ...] = ()  # an empty tuple matches no token
        self._key_id = b""
        self._names = ("", "")
        self._begin = ring.signer(purpose).begin

    def open(self, data: bytes, now_ms: int) -> Cookie:
        """As `open_token`: verifies MAC or seal first; the caller checks the expiry."""
        head = self._head
        if not data.startswith(head) or len(data) > MAX_TOKEN:
            return self._open(data, now_ms)
        state, end = self._begin(), len(data) - MAC_BYTES
        state.update(data[:end])
        if not compare_digest(state.finalize()[:MAC_BYTES], data[end:]):
            raise BadToken("wrong MAC")
        if self._ring.dated:
            self._ring.check_date(self._key_id, now_ms)
        at = len(head) + PLAIN_BYTES
        number = _number(data[at - PLAIN_BYTES : at], "big")
        if at + (number & 0xFFFF) != end:
            raise BadToken("wrong field lengths")
        try:
            return _new(Cookie, (*self._names, data[at:end].decode(), number >> 16, None, None, None))
        except UnicodeDecodeError:
            raise BadToken("text is not UTF-8") from None

    def _open(self, data: bytes, now_ms: int) -> Cookie:
        cookie = open_token(self._ring, data, now_ms, self._purpose)
        if data[0] == VERSION and data[1] == ADDRESS and cookie.address is not None:
            self._names = (cookie.scope, cookie.link_target)
            self._key_id = data[3 : 3 + data[2]]
            self._begin = self._ring.begin(self._purpose, self._key_id)
            self._head = data[: len(data) - MAC_BYTES - PLAIN_BYTES - len(cookie.address.encode())]
        return cookie


def open_cookie(ring: KeyRing, data: bytes, now_ms: int) -> Cookie:
    """The verified cookie. Raises AmqpError with the condition of conformance 0.3; the reason is on
    `__cause__`. The caller compares scope and link target (`Annotator.restore`)."""
    try:
        cookie = open_token(ring, data, now_ms, COOKIE)
        check_expiry(cookie, now_ms - ring.skew_ms)
    except BadToken as fault:
        raise refusal(fault) from fault
    return cookie


def open_token(ring: KeyRing, data: bytes, now_ms: int, purpose: Purpose, *, most: int = MAX_TOKEN) -> Cookie:
    """Verifies MAC or seal before reading any field, but leaves the expiry to the caller, which first
    compares the scope; raises `BadToken`, or `CookieReference` for a reference."""
    if not MIN_TOKEN <= len(data) <= most:
        raise BadToken("wrong length")
    try:
        if data[0] == VERSION:
            start = 3 + data[2]
            end = len(data) - MAC_BYTES
            ring.verify(purpose, data[3:start], data[:end], data[end:], now_ms)
            return _fields(data[1], data, start, end)
        if data[0] == encryption.VERSION:
            content = ring.unseal(purpose, data, now_ms)
            return _fields(content[0], content, 1, len(content))
        raise BadToken("unknown version")
    except UnicodeDecodeError:
        raise BadToken("text is not UTF-8") from None
    except IndexError:
        raise BadToken("wrong field lengths") from None


def _fields(flags: int, data: bytes, start: int, end: int) -> Cookie:
    """The fields from `start` to `end`.

    A field that is too long moves the position past the end, which is checked once.
    """
    if flags & ~KNOWN_FLAGS:
        raise _reference(data, start, end) if flags == REFERENCE else BadToken("unknown flags")
    stop = start + 2 + (data[start] << 8 | data[start + 1])
    scope = data[start + 2 : stop].decode()
    at = stop + 2 + (data[stop] << 8 | data[stop + 1])
    target = data[stop + 2 : at].decode()
    expiry = int.from_bytes(data[at : at + EXPIRY_BYTES], "big")
    at += EXPIRY_BYTES
    address = None
    if flags & ADDRESS:
        stop = at + 2 + (data[at] << 8 | data[at + 1])
        if stop > end:
            raise BadToken("wrong field lengths")
        address, at = data[at + 2 : stop].decode(), stop
    if not flags & ~ADDRESS:
        if at != end:
            raise BadToken("wrong field lengths")
        return Cookie(scope, target, address, expiry)
    inner_cookie, at = _read(data, at) if flags & INNER_COOKIE else (None, at)
    inner_target, at = _read(data, at) if flags & INNER_TARGET else (None, at)
    uses, at = _read_uses(data, at) if flags & USES else (None, at)
    if at != end:
        raise BadToken("wrong field lengths")
    inner_text = None if inner_target is None else inner_target.decode()
    return Cookie(scope, target, address, expiry, inner_cookie, inner_text, uses)


def _reference(data: bytes, start: int, end: int) -> CookieReference | BadToken:
    scope, at = _read(data, start)
    target, at = _read(data, at)
    stop = at + EXPIRY_BYTES
    if end - stop != REFERENCE_BYTES:
        return BadToken("wrong field lengths")
    expiry = int.from_bytes(data[at:stop], "big")
    return CookieReference(Cookie(scope.decode(), target.decode(), None, expiry), data[stop:end])


def _read_uses(data: bytes, at: int) -> tuple[Uses, int]:
    stop = at + 2 + NONCE_BYTES
    return Uses(data[at] << 8 | data[at + 1], data[at + 2 : stop]), stop


def _read(data: bytes, at: int) -> tuple[bytes, int]:
    stop = at + 2 + (data[at] << 8 | data[at + 1])
    return data[at + 2 : stop], stop
