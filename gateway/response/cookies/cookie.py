"""The response-address cookie as bytes: encoding, signing or sealing, and opening (KM-23, A31).

One format serves the cookie of an annotated request and the token in a rewritten reply-to; they
differ by the purpose in the key. Field by field, with test vectors: docs/cookies.md.
"""

from __future__ import annotations

import secrets
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from hmac import compare_digest
from typing import Final, NamedTuple, Protocol

from gateway.errors import PRECONDITION_FAILED, RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS, AmqpError
from gateway.response.cookies import encryption
from gateway.response.cookies.keys import COOKIE, MAC_BYTES, BadToken, KeyRing, Purpose

VERSION: Final = 1
MAX_TOKEN: Final = 4096
_ADDRESS: Final = 0x01
_INNER_COOKIE: Final = 0x02
_INNER_TARGET: Final = 0x04
_USES: Final = 0x10
_KNOWN_FLAGS: Final = _ADDRESS | _INNER_COOKIE | _INNER_TARGET | _USES
_REFERENCE: Final = 0x20
"""The only flag of a reference."""
NONCE_BYTES: Final = 12
NAME_BYTES: Final = 16
_REFERENCE_BYTES: Final = NAME_BYTES + 16
MIN_LIMIT: Final = 384
"""The minimum limit: a reference with names of 64 bytes and a seal must fit."""
MAX_USES: Final = 65_535
_EXPIRY_BYTES: Final = 6
_PLAIN_BYTES: Final = _EXPIRY_BYTES + 2
"""Expiry and the length of an address, which are adjacent and read as one number."""
_MAX_EXPIRY: Final = 253_402_300_799_999  # the end of year 9999, the last a calendar can show
# version, flags, empty key id, two empty fields, expiry, MAC
_MIN_TOKEN: Final = 3 + 4 + _EXPIRY_BYTES + MAC_BYTES
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")
_new: Final = tuple.__new__
_number: Final = int.from_bytes


class Expired(BadToken):
    """Genuine, but expired: the only reason that the peer is told (conformance 0.3)."""

    def __init__(self) -> None:
        super().__init__("expired")


class CookieReference(Exception):
    """Genuine, but only a reference to a stored cookie: `cookie` has only scope, link target and expiry."""

    def __init__(self, cookie: Cookie, reference: bytes) -> None:
        super().__init__("in the cookie store")
        self.cookie: Final = cookie
        self.reference: Final = reference


class Uses(NamedTuple):
    """The limit of responses of a cookie; the nonce identifies the cookie."""

    limit: int
    nonce: bytes


class Cookie(NamedTuple):
    """The fields of a cookie.

    `scope` is that of the requester, `link_target` the address that the cookie is for (T, or the prefix of a rewritten
    reply-to), `address` the reply-to; `inner_*` are the annotations of a previous gateway. Without `uses`, the number
    of responses is not limited until the cookie expires.
    """

    scope: str
    link_target: str
    address: str | None
    expiry_ms: int
    inner_cookie: bytes | None = None
    inner_target: str | None = None
    uses: Uses | None = None


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
        self._plain = bytes((VERSION, _ADDRESS)) + self._shared
        self._purpose: Final = purpose
        self._overflow = None if overflow is None or overflow.limit is None else overflow
        self._most = most if overflow is None or overflow.limit is None else overflow.limit
        # The longest address for which `make` needs no general form; -1 where tokens are sealed.
        self._room = -1 if ring.sealing else self._most - MAC_BYTES - _PLAIN_BYTES - len(self._plain)

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
        when = cookie.expiry_ms.to_bytes(_EXPIRY_BYTES, "big")
        return self._overflow.reference_for(
            cookie, self._purpose, lambda reference: self._token(_REFERENCE, when + reference)
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
    rest = expiry_ms.to_bytes(_EXPIRY_BYTES, "big")
    if address is not None:
        flags = _ADDRESS
        rest += _field(address.encode())
    if inner_cookie is not None:
        flags |= _INNER_COOKIE
        rest += _field(inner_cookie)
    if inner_target is not None:
        flags |= _INNER_TARGET
        rest += _field(inner_target.encode())
    if uses is not None:
        flags |= _USES
        rest += uses.limit.to_bytes(2, "big") + uses.nonce
    return flags, rest


def seal(ring: KeyRing, cookie: Cookie, purpose: Purpose = COOKIE) -> bytes:
    """Make a single token; a `CookieMaker` makes many for one crossing."""
    within = cookie._replace(expiry_ms=expiry_of(cookie.expiry_ms, None))
    return CookieMaker(ring, cookie.scope, cookie.link_target, purpose).make(within)


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
        at = len(head) + _PLAIN_BYTES
        number = _number(data[at - _PLAIN_BYTES : at], "big")
        if at + (number & 0xFFFF) != end:
            raise BadToken("wrong field lengths")
        try:
            return _new(Cookie, (*self._names, data[at:end].decode(), number >> 16, None, None, None))
        except UnicodeDecodeError:
            raise BadToken("text is not UTF-8") from None

    def _open(self, data: bytes, now_ms: int) -> Cookie:
        cookie = open_token(self._ring, data, now_ms, self._purpose)
        if data[0] == VERSION and data[1] == _ADDRESS and cookie.address is not None:
            self._names = (cookie.scope, cookie.link_target)
            self._key_id = data[3 : 3 + data[2]]
            self._begin = self._ring.begin(self._purpose, self._key_id)
            self._head = data[: len(data) - MAC_BYTES - _PLAIN_BYTES - len(cookie.address.encode())]
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


def refusal(fault: BadToken) -> AmqpError:
    """The error for the peer: expiry, or one and the same sentence for everything else (RA-2.4-4)."""
    if isinstance(fault, Expired):
        return AmqpError(PRECONDITION_FAILED, "the response address cookie has expired")
    return AmqpError(UNAUTHORIZED_ACCESS, "the response address cookie is not valid here")


def open_token(ring: KeyRing, data: bytes, now_ms: int, purpose: Purpose, *, most: int = MAX_TOKEN) -> Cookie:
    """Verifies MAC or seal before reading any field, but leaves the expiry to the caller, which first
    compares the scope; raises `BadToken`, or `CookieReference` for a reference."""
    if not _MIN_TOKEN <= len(data) <= most:
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


def check_expiry(cookie: Cookie, now_ms: int) -> None:
    """The expiry is the last moment in which the cookie is valid (RA 2.3)."""
    if now_ms > cookie.expiry_ms:
        raise Expired


def _fields(flags: int, data: bytes, start: int, end: int) -> Cookie:
    """The fields from `start` to `end`.

    A field that is too long moves the position past the end, which is checked once.
    """
    if flags & ~_KNOWN_FLAGS:
        raise _reference(data, start, end) if flags == _REFERENCE else BadToken("unknown flags")
    stop = start + 2 + (data[start] << 8 | data[start + 1])
    scope = data[start + 2 : stop].decode()
    at = stop + 2 + (data[stop] << 8 | data[stop + 1])
    target = data[stop + 2 : at].decode()
    expiry = int.from_bytes(data[at : at + _EXPIRY_BYTES], "big")
    at += _EXPIRY_BYTES
    address = None
    if flags & _ADDRESS:
        stop = at + 2 + (data[at] << 8 | data[at + 1])
        if stop > end:
            raise BadToken("wrong field lengths")
        address, at = data[at + 2 : stop].decode(), stop
    if not flags & ~_ADDRESS:
        if at != end:
            raise BadToken("wrong field lengths")
        return Cookie(scope, target, address, expiry)
    inner_cookie, at = _read(data, at) if flags & _INNER_COOKIE else (None, at)
    inner_target, at = _read(data, at) if flags & _INNER_TARGET else (None, at)
    uses, at = _read_uses(data, at) if flags & _USES else (None, at)
    if at != end:
        raise BadToken("wrong field lengths")
    inner_text = None if inner_target is None else inner_target.decode()
    return Cookie(scope, target, address, expiry, inner_cookie, inner_text, uses)


def _reference(data: bytes, start: int, end: int) -> CookieReference | BadToken:
    scope, at = _read(data, start)
    target, at = _read(data, at)
    stop = at + _EXPIRY_BYTES
    if end - stop != _REFERENCE_BYTES:
        return BadToken("wrong field lengths")
    expiry = int.from_bytes(data[at:stop], "big")
    return CookieReference(Cookie(scope.decode(), target.decode(), None, expiry), data[stop:end])


def _read_uses(data: bytes, at: int) -> tuple[Uses, int]:
    stop = at + 2 + NONCE_BYTES
    return Uses(data[at] << 8 | data[at + 1], data[at + 2 : stop]), stop


def _read(data: bytes, at: int) -> tuple[bytes, int]:
    stop = at + 2 + (data[at] << 8 | data[at + 1])
    return data[at + 2 : stop], stop


def _field(value: bytes) -> bytes:
    if len(value) > MAX_TOKEN:
        raise too_long()
    return len(value).to_bytes(2, "big") + value


def too_long() -> AmqpError:
    return AmqpError(
        RESOURCE_LIMIT_EXCEEDED,
        "reply-to, message-id or a previous gateway's response address is too long to route a response",
    )


def expiry_of(own_ms: int, previous_ms: int | None) -> int:
    """The earlier of our expiry and that of a previous gateway, limited to what a cookie can represent (RA-2.3-17)."""
    earlier = own_ms if previous_ms is None else min(own_ms, previous_ms)
    return min(max(earlier, 0), _MAX_EXPIRY)


def to_url(token: bytes) -> bytes:
    """base64url without padding, for addresses and string ids."""
    return b2a_base64(token, newline=False).translate(_TO_URL, b"=")


def from_url(text: bytes) -> bytes:
    """Decode base64url; accepts only one spelling: no padding, no other alphabet, no spare bits."""
    try:
        token = a2b_base64(text.translate(_FROM_URL) + b"==")  # extra padding is harmless
    except ValueError:
        raise BadToken("not base64url") from None
    if to_url(token) != text:
        raise BadToken("not base64url")
    return token


def describe(cookie: Cookie) -> dict[str, str]:
    """The fields of a cookie as text; of an inner cookie, a secret of another gateway, only the size."""
    inner = cookie.inner_cookie
    return {
        "scope": cookie.scope,
        "link target": cookie.link_target,
        "reply address": "none" if cookie.address is None else cookie.address,
        "expires": (_EPOCH + timedelta(milliseconds=cookie.expiry_ms)).isoformat(timespec="milliseconds"),
        "inner cookie": "none" if inner is None else f"{len(inner)} bytes",
        "inner target": cookie.inner_target or "none",
        "responses": "any number" if cookie.uses is None else f"at most {cookie.uses.limit}",
    }
