"""A response-address cookie as a value: its fields, its expiry, and the errors of cookies that cannot be used (RA 2.3).

One format serves the cookie of an annotated request and the token in a rewritten reply-to; they differ by the purpose
in the key. `maker` encodes cookies, `reader` opens them, `token_layout` has the sizes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from gateway.errors import PRECONDITION_FAILED, RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS, AmqpError
from gateway.response.cookies.keys import BadToken

_MAX_EXPIRY: Final = 253_402_300_799_999  # the end of year 9999, the last a calendar can show
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


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


class Expired(BadToken):
    """Genuine, but expired: the only reason that the peer gets (conformance 0.3)."""

    def __init__(self) -> None:
        super().__init__("expired")


class CookieReference(Exception):
    """Genuine, but only a reference to a stored cookie: `cookie` has only scope, link target and expiry."""

    def __init__(self, cookie: Cookie, reference: bytes) -> None:
        super().__init__("in the cookie store")
        self.cookie: Final = cookie
        self.reference: Final = reference


def refusal(fault: BadToken) -> AmqpError:
    """The error for the peer: expiry, or one and the same sentence for everything else (RA-2.4-4)."""
    if isinstance(fault, Expired):
        return AmqpError(PRECONDITION_FAILED, "the response address cookie has expired")
    return AmqpError(UNAUTHORIZED_ACCESS, "the response address cookie is not valid here")


def too_long() -> AmqpError:
    return AmqpError(
        RESOURCE_LIMIT_EXCEEDED,
        "reply-to, message-id or a previous gateway's response address is too long to route a response",
    )


def check_expiry(cookie: Cookie, now_ms: int) -> None:
    """The expiry is the last moment in which the cookie is valid (RA 2.3)."""
    if now_ms > cookie.expiry_ms:
        raise Expired


def expiry_of(own_ms: int, previous_ms: int | None) -> int:
    """The earlier of our expiry and that of a previous gateway, limited to what a cookie can represent (RA-2.3-17)."""
    earlier = own_ms if previous_ms is None else min(own_ms, previous_ms)
    return min(max(earlier, 0), _MAX_EXPIRY)


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
