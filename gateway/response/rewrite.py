"""Rewrites requests to targets without support of annotations as new messages (RA 2.5), without a table.

The reply-to becomes `<prefix>/<token>`, where the token has the contents of a cookie; the message-id becomes one that
contains the original (`message_id`). Any process with the keys can undo both, after any restart. All properties that
mean the same in every scope stay byte-equal.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from gateway.amqp.codec.codec import encode
from gateway.amqp.message._sections import rewrite_request, rewrite_run
from gateway.amqp.message.sections import SectionOffsets, edit_map, splice, walk
from gateway.errors import NOT_FOUND, PRECONDITION_FAILED, AmqpError
from gateway.response.annotations import (
    NO_PREVIOUS,
    REQUEST_ANNOTATIONS,
    RESPONSE_COOKIE,
    Previous,
    previous_annotations,
)
from gateway.response.cookies import keys
from gateway.response.cookies.base64url import from_url, to_url
from gateway.response.cookies.cookie import Cookie, CookieReference, Expired, check_expiry, expiry_of
from gateway.response.cookies.cookie_store import CookieNotLoaded, CookieStore, open_or_reference
from gateway.response.cookies.epoch_cache import EpochCache, ExpiryStepCache
from gateway.response.cookies.keys import BadToken, KeyRing
from gateway.response.cookies.maker import CookieMaker
from gateway.response.cookies.reader import CookieReader
from gateway.response.crossing import Crossing, Messages
from gateway.response.fields import (
    CORRELATION_ID,
    ME,
    MESSAGE_ID,
    NULL,
    REPLY_TO,
    TO,
    address_text,
    assemble,
    check_id,
    is_me,
    leading_fields,
)
from gateway.response.message_id import MARK, ScopeIds
from gateway.response.permission import Permit, anywhere
from gateway.response.restore import Restored, restored_annotations

_EXPIRED: Final = "the response address has expired"
_new: Final = tuple.__new__


class ReplyTokens:
    """Tokens for the reply-to of requests, each made once for all requests with the same reply-to.

    `encoded` encodes a token for a message. Not `shared`: each request has a token of its own, because its uses are
    counted.
    """

    __slots__ = ("_encoded", "_maker", "_recent", "_shared", "_store", "recent")

    def __init__(
        self, maker: CookieMaker, ttl_ms: int, store: CookieStore, encoded: Callable[[bytes], bytes], *, shared: bool
    ) -> None:
        self._maker, self._store, self._encoded, self._shared = maker, store, encoded, shared
        self._recent: ExpiryStepCache[bytes | tuple[bytes, Previous], bytes] = ExpiryStepCache(ttl_ms)
        self.recent: Final = self._recent.at
        """The tokens of a time, in milliseconds since 1970, by encoded reply-to."""

    def token(self, field: bytes, previous: Previous, now_ms: int, permit: Permit) -> bytes:
        """The encoded token for the encoded reply-to `field`; raises AmqpError where `permit` does."""
        recent = self._recent.at(now_ms)
        key = field if previous is NO_PREVIOUS else (field, previous)
        made = recent.get(key)
        if made is None:
            reply_to, expiry = address_text(field, "reply-to"), expiry_of(self._recent.expiry_ms, previous.expiry_ms)
            answered = previous.target or reply_to  # the address of the response (RA-2.3-17)
            made = self._encoded(self._maker.issue(reply_to, expiry, previous.cookie, previous.target))
            lasting = answered is None or permit(answered)
            if lasting and not self._store.pending and self._shared:
                recent[key] = made
        return made


class Rewriter:
    """Rewrites requests from scope `origin` and restores their responses (one per crossing).

    `prefix` is this gateway's response address in the destination scope. `destination` names that scope: with it,
    responses get ids that can be translated back (RA-2.5-8), and requests that quote one get the original; without it,
    ids of responses do not change. `uses` limits the responses of each request; each then has its own address. Cookies
    that the `store` has pending after a request was rewritten must be stored before the request is sent.
    """

    def __init__(
        self,
        ring: KeyRing,
        origin: str,
        prefix: str,
        ttl_ms: int,
        *,
        destination: str | None = None,
        uses: int | None = None,
        store: CookieStore | None = None,
        ids_of: Rewriter | None = None,
        token_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        """`ids_of`: another rewriter of the same two scopes, to share its ids."""
        self._ring, self._origin, self._prefix = ring, origin, prefix
        self._store = store or CookieStore(ring)
        maker = CookieMaker(
            ring, origin, prefix, keys.REPLY_TO, uses=uses, overflow=self._store, token_bytes=token_bytes
        )
        self._addresses = ReplyTokens(maker, ttl_ms, self._store, self._address, shared=uses is None)
        self._reader = CookieReader(ring, keys.REPLY_TO)
        if ids_of is None:
            self._ids = ScopeIds(ring, origin, token_bytes)
            self._destination_ids = None if destination is None else ScopeIds(ring, destination, token_bytes)
        else:
            self._ids, self._destination_ids = ids_of._ids, ids_of._destination_ids
        self._recent_tokens: EpochCache[str, tuple[Cookie, bytes]] = EpochCache()

    def rewrite(
        self,
        data: bytes,
        now_ms: int,
        own: Callable[[], bytes] | None = None,
        permit: Permit = anywhere,
        *,
        answer: bool = False,
    ) -> bytes:
        """The request as a new message; without a reply-to as it is, less the RA annotations.

        Only an `answer` keeps the cookie of its own request. Raises AmqpError where `permit` does.

        `own` returns the encoded address of the paired link, for a request that asks for its response there. A quoted
        id that was made for one of the destination scope is translated back, which alone makes a new message, too.
        """
        return self.crossing(lambda: now_ms, own, permit, answer=answer)(data)

    def crossing(
        self, clock: Callable[[], int], own: Callable[[], bytes] | None, permit: Permit, *, answer: bool
    ) -> Crossing:
        """`rewrite` for one sender, as a function of the request alone."""
        recent, mint, general = self._addresses.recent, self._ids.mint, self._rewrite

        def crossed(data: bytes) -> bytes:
            now_ms = clock()  # most requests have nothing of ours, and a reply-to that came before
            found = rewrite_request(data, recent(now_ms), MARK, mint)
            return general(data, now_ms, own, permit, answer) if found is ... else found

        def several(messages: Messages, start: int, end: int) -> list[bytes]:
            return rewrite_run(messages, start, end, recent(clock()), MARK, mint)

        return Crossing(crossed, several)

    def _rewrite(
        self, data: bytes, now_ms: int, own: Callable[[], bytes] | None, permit: Permit, answer: bool
    ) -> bytes:
        """The general form, for any request; its token is cached for others with the same reply-to."""
        layout = walk(data)
        annotations, previous = b"", NO_PREVIOUS
        if layout.da != layout.ma:
            annotations = data[layout.da : layout.ma]
            previous = previous_annotations(annotations)
            annotations = without_routing(annotations, answer=answer)
        fields = leading_fields(data, layout)
        leading = fields[0]
        quoted = self._quoted(leading[CORRELATION_ID], now_ms) if leading[CORRELATION_ID] != NULL else None
        if (reply_to := leading[REPLY_TO]) != NULL:
            if own is not None and reply_to.endswith(ME) and is_me(reply_to):
                reply_to = own()
            leading[REPLY_TO] = self._addresses.token(reply_to, previous, now_ms, permit)
        elif quoted is None:
            return splice(data, layout, da=annotations or None) if layout.da != layout.ma else data
        if quoted is not None:
            leading[CORRELATION_ID] = quoted
        leading[MESSAGE_ID] = self._new_id(leading[MESSAGE_ID], now_ms)
        return assemble(data, layout, annotations, fields)

    def resolve(self, token: str, now_ms: int) -> Cookie:
        """The cookie of a rewritten address, for an attach to it; raises the refusal of RA-2.5-9.

        Of a reference, only scope and expiry are known; the rest is fetched with a response.
        """
        try:
            return self._resolved(token, now_ms)[0]
        except CookieNotLoaded:
            return self._verified(token, now_ms)[0]

    def undo(self, token: str, data: bytes, now_ms: int, layout: SectionOffsets | None = None) -> Restored:
        """Restore a response that came to `<prefix>/<token>`; `layout` if it is known.

        Its own reply-to is still one of the destination scope: the caller applies the transform of the other direction.
        Raises `CookieNotLoaded` as `LinkTarget.restore` does.
        """
        cookie, to = self._resolved(token, now_ms)
        layout = layout or walk(data)
        bare = layout.da == layout.ma and cookie.inner_cookie is None
        annotations = b"" if bare else restored_annotations(data[layout.da : layout.ma], cookie)
        fields = leading_fields(data, layout)
        leading = fields[0]
        leading[TO] = to
        correlation = check_id(leading[CORRELATION_ID], "correlation-id")
        leading[CORRELATION_ID] = self._ids.original(correlation, now_ms) or correlation
        leading[MESSAGE_ID] = self._response_id(leading[MESSAGE_ID], now_ms)
        restored = assemble(data, layout, annotations, fields)
        onward = leading[REPLY_TO] != NULL
        return _new(Restored, (cookie.scope, cookie.address, restored, cookie.inner_target, onward, cookie, no_address))

    def _resolved(self, token: str, now_ms: int) -> tuple[Cookie, bytes]:
        """The cookie, and its encoded reply address."""
        ring = self._ring
        recent = self._recent_tokens.at(ring.epoch(now_ms) if ring.dated else 0)
        found = recent.get(token)
        if found is None:
            cookie, elsewhere = self._verified(token, now_ms)
            if elsewhere is not None:
                cookie = self._store.resolve(elsewhere, now_ms, no_address)
            found = recent[token] = (cookie, encode(cookie.address))
        elif now_ms - ring.skew_ms > found[0].expiry_ms:
            expired = Expired()
            raise no_address(expired) from expired
        return found

    def _verified(self, token: str, now_ms: int) -> tuple[Cookie, CookieReference | None]:
        try:
            data = from_url(token.encode("ascii", "replace"))
            cookie, elsewhere = open_or_reference(self._reader, data, now_ms)
            if (cookie.scope, cookie.link_target) != (self._origin, self._prefix):
                raise BadToken("wrong scope or prefix")
            check_expiry(cookie, now_ms - self._ring.skew_ms)
        except BadToken as fault:
            raise no_address(fault) from fault
        return cookie, elsewhere

    def _address(self, token: bytes) -> bytes:
        return encode(f"{self._prefix}/{to_url(token).decode()}")

    def _new_id(self, field: bytes, now_ms: int) -> bytes:
        """A new id, unless the message has one already: a response that is also a request."""
        if MARK in field and self._ids.original(field, now_ms) is not None:
            return field
        return self._ids.mint(check_id(field, "message-id"))

    def _response_id(self, field: bytes, now_ms: int) -> bytes:
        """The new id of a response (RA-2.5-8), or the original id of a request that was sent back."""
        if field == NULL:
            return field
        check_id(field, "message-id")
        original = self._ids.original(field, now_ms)
        if original is not None or self._destination_ids is None:
            return original or field
        return self._destination_ids.mint(field)

    def _quoted(self, field: bytes, now_ms: int) -> bytes | None:
        """The id of the destination scope that `field` was made of, if any."""
        check_id(field, "correlation-id")
        return None if self._destination_ids is None else self._destination_ids.original(field, now_ms)


def no_address(fault: BadToken) -> AmqpError:
    """The error for the peer: expiry, or one and the same sentence for everything else (RA-2.5-9)."""
    if isinstance(fault, Expired):
        return AmqpError(PRECONDITION_FAILED, _EXPIRED)
    return AmqpError(NOT_FOUND, "there is no such response address")


def without_routing(annotations: bytes, *, answer: bool) -> bytes:
    """Delivery annotations without those of a request, and of a response unless it is an `answer` (RA-2.5-10)."""
    return edit_map(annotations, drop=REQUEST_ANNOTATIONS if answer else (*REQUEST_ANNOTATIONS, RESPONSE_COOKIE)) or b""
