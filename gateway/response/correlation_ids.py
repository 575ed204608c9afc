"""Rewrites requests whose responses come to one fixed address: their ids contain the response address (RA 2.5).

An address at another container, such as a queue of a broker, cannot contain a token. So the rewritten request has
that address as its reply-to, and its message-id, and correlation-id if it has one, become ids with the token that a
rewritten reply address would have contained. Whichever of the two a responder echoes in correlation-id, the original
is restored with its type. If the policy sets `ids: message-id`, correlation-id stays. Layout: docs/cookies.md,
"Return id".
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from itertools import count
from typing import Final

from gateway.amqp.codec.codec import encode
from gateway.amqp.message.sections import splice, walk
from gateway.errors import NOT_FOUND, PRECONDITION_FAILED, AmqpError
from gateway.response.annotations import NO_PREVIOUS, previous_annotations
from gateway.response.cookies import encryption, keys
from gateway.response.cookies.base64url import to_url
from gateway.response.cookies.cookie import Cookie, Expired, check_expiry, too_long
from gateway.response.cookies.cookie_store import CookieStore, open_or_reference
from gateway.response.cookies.epoch_cache import EpochCache
from gateway.response.cookies.keys import MAC_BYTES, BadToken, KeyRing
from gateway.response.cookies.maker import CookieMaker
from gateway.response.cookies.reader import CookieReader
from gateway.response.cookies.token_layout import MAX_TOKEN
from gateway.response.fields import (
    CORRELATION_ID,
    MESSAGE_ID,
    NULL,
    REPLY_TO,
    TO,
    assemble,
    check_id,
    leading_fields,
)
from gateway.response.message_id import MARK, UNIQUE_BYTES, ScopeIds, id_token
from gateway.response.permission import Permit, anywhere
from gateway.response.restore import Restored, restored_annotations
from gateway.response.rewrite import ReplyTokens, without_routing

VERSION: Final = 1
_MIN: Final = 2 + 2 + UNIQUE_BYTES + 1 + MAC_BYTES


class CorrelationRewriter:
    """Rewrites requests from scope `origin` into `destination`; their responses come to `link_target`."""

    def __init__(
        self,
        ring: KeyRing,
        origin: str,
        destination: str,
        link_target: str,
        ttl_ms: int,
        *,
        uses: int | None = None,
        correlation: bool = True,
        store: CookieStore | None = None,
        token_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """`correlation`: the correlation-id of a request is rewritten, too; False keeps it (RA-2.5-3)."""
        self._correlation = correlation
        store = store or CookieStore(ring)
        maker = CookieMaker(ring, origin, link_target, keys.RETURN, uses=uses, overflow=store, token_bytes=token_bytes)
        self._tokens = ReplyTokens(maker, ttl_ms, store, bytes, shared=uses is None)
        self._mac = ring.signer(keys.RETURN_ID).mac
        self._seal = ring.sealer(keys.RETURN_ID).seal if ring.sealing else None
        key_id = ring.active.encode()
        self._head = bytes([VERSION, len(key_id)]) + key_id
        self._ids = ScopeIds(ring, origin, token_bytes)
        self._destination_ids = ScopeIds(ring, destination, token_bytes)
        # Below 2**63, so that the counter cannot exceed eight bytes.
        self._unique = count(int.from_bytes(token_bytes(UNIQUE_BYTES), "big") >> 1)

    def rewrite(
        self, data: bytes, now_ms: int, *, reply_to: bytes, answer: bool = False, permit: Permit = anywhere
    ) -> bytes:
        """The request as a new message that is answered at `reply_to` (encoded); raises AmqpError where `permit` does.

        `answer`: it is also a response, whose correlation-id the other side knows. Without a reply-to, only quoted ids
        of the destination change, as in `Rewriter`.
        """
        layout = walk(data)
        annotations, previous = data[layout.da : layout.ma], NO_PREVIOUS
        if annotations:
            previous = previous_annotations(annotations)
            annotations = without_routing(annotations, answer=answer)
        fields = leading_fields(data, layout)
        leading = fields[0]
        correlation = check_id(leading[CORRELATION_ID], "correlation-id")
        quoted = self._destination_ids.original(correlation, now_ms)
        if leading[REPLY_TO] == NULL:
            if quoted is None:
                return splice(data, layout, da=annotations or None) if layout.da != layout.ma else data
            leading[MESSAGE_ID] = self._ids.mint(check_id(leading[MESSAGE_ID], "message-id"))
        else:
            cookie_token = self._tokens.token(leading[REPLY_TO], previous, now_ms, permit)
            leading[REPLY_TO] = reply_to
            leading[MESSAGE_ID] = self._mint(cookie_token, self._own(leading[MESSAGE_ID], now_ms))
            if self._correlation and quoted is None and correlation != NULL and not answer:
                leading[CORRELATION_ID] = self._mint(cookie_token, correlation)
        if quoted is not None:
            leading[CORRELATION_ID] = quoted
        return assemble(data, layout, annotations, fields)

    def _own(self, field: bytes, now_ms: int) -> bytes:
        """The original id: a response that is also a request may have a new one already."""
        return self._ids.original(field, now_ms) or check_id(field, "message-id")

    def _mint(self, cookie_token: bytes, original: bytes) -> bytes:
        content = b"".join((len(cookie_token).to_bytes(2, "big"), cookie_token, original))
        if self._seal is None:
            data = b"".join((self._head, next(self._unique).to_bytes(UNIQUE_BYTES, "big"), content))
            token = data + self._mac(data)
        else:
            token = self._seal(content)
        if len(token) > MAX_TOKEN:
            raise too_long()
        return encode((MARK + to_url(token)).decode())


class CorrelationRestorer:
    """Restores responses to requests that `CorrelationRewriter`s of `scopes` sent into `destination`."""

    def __init__(
        self,
        ring: KeyRing,
        destination: str,
        link_target: str,
        scopes: Collection[str],
        *,
        store: CookieStore | None = None,
        token_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._ring, self._target, self._scopes = ring, link_target, frozenset(scopes)
        self._reader = CookieReader(ring, keys.RETURN)
        self._destination_ids = ScopeIds(ring, destination, token_bytes)
        self._store = store or CookieStore(ring)
        self._recent: EpochCache[bytes, Cookie] = EpochCache()

    def restore(self, data: bytes, now_ms: int) -> Restored:
        """Restore a response for its own scope, by its correlation-id; raises the refusals of RA-2.5-9.

        Raises `CookieNotLoaded` as `LinkTarget.restore` does.
        """
        layout = walk(data)
        fields = leading_fields(data, layout)
        leading = fields[0]
        cookie, original = self._opened(leading[CORRELATION_ID], now_ms)
        annotations = restored_annotations(data[layout.da : layout.ma], cookie)
        leading[TO] = encode(cookie.address)
        leading[CORRELATION_ID] = original
        leading[MESSAGE_ID] = self._response_id(leading[MESSAGE_ID])
        restored = assemble(data, layout, annotations, fields)
        onward = leading[REPLY_TO] != NULL
        return Restored(cookie.scope, cookie.address, restored, cookie.inner_target, onward, cookie, no_request)

    def _response_id(self, field: bytes) -> bytes:
        """A response is a new message (RA-2.5-8); one without an id gets none."""
        return field if check_id(field, "message-id") == NULL else self._destination_ids.mint(field)

    def _opened(self, field: bytes, now_ms: int) -> tuple[Cookie, bytes]:
        try:
            cookie_token, original = open_return_id(self._ring, id_token(field), now_ms)
            cookie = self._cookie(cookie_token, now_ms)
        except BadToken as fault:
            raise no_request(fault) from fault
        return cookie, original

    def _cookie(self, cookie_token: bytes, now_ms: int) -> Cookie:
        recent = self._recent.at(self._ring.epoch(now_ms))
        cookie = recent.get(cookie_token)
        if cookie is None:
            cookie, elsewhere = open_or_reference(self._reader, cookie_token, now_ms)
            if cookie.scope not in self._scopes or cookie.link_target != self._target:
                raise BadToken("wrong scope or link target")
            if elsewhere is not None:
                check_expiry(cookie, now_ms - self._ring.skew_ms)
                cookie = self._store.resolve(elsewhere, now_ms, no_request)
            recent[cookie_token] = cookie
        check_expiry(cookie, now_ms - self._ring.skew_ms)
        return cookie


def no_request(fault: BadToken) -> AmqpError:
    """The error for the container: expiry, or one and the same sentence for everything else."""
    if isinstance(fault, Expired):
        return AmqpError(PRECONDITION_FAILED, "the response address has expired")
    return AmqpError(NOT_FOUND, "the correlation-id of the response names no request")


def open_return_id(ring: KeyRing, data: bytes, now_ms: int) -> tuple[bytes, bytes]:
    """The sealed cookie and the original id; verifies the MAC first."""
    if not _MIN <= len(data) <= MAX_TOKEN:
        raise BadToken("wrong length")
    if data[0] == encryption.VERSION:
        content = ring.unseal(keys.RETURN_ID, data, now_ms)
    elif data[0] == VERSION:
        start, end = 2 + data[1], len(data) - MAC_BYTES
        ring.verify(keys.RETURN_ID, data[2:start], data[:end], data[end:], now_ms)
        content = data[start + UNIQUE_BYTES : end]
    else:
        raise BadToken("unknown version")
    stop = 2 + int.from_bytes(content[:2], "big")
    return content[2:stop], content[stop:]
