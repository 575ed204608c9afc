"""Annotates requests with a cookie, for targets that announced `response-address-supported` (RA 2.3).

One `Annotator` serves one crossing, from scope `origin`; responses come back to `link_target`, or to the address
`announced` instead of it. The bare message stays byte-equal. With `uses`, a request may have that many responses, and
has a cookie of its own. Cookies that the `store` has pending after a request was annotated must be stored before the
request is sent.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

from gateway.amqp.codec.codec import Symbol, Timestamp, encode, encode_binary
from gateway.amqp.message._sections import add_annotations, annotate_run
from gateway.amqp.message.sections import DELIVERY_ANNOTATIONS, SectionOffsets, edit_map, property_field, splice, walk
from gateway.response.annotations import (
    REQUEST_COOKIE,
    REQUEST_EXPIRY,
    REQUEST_TARGET,
    RESPONSE_COOKIE,
    previous_annotations,
)
from gateway.response.cookies.cookie import expiry_of
from gateway.response.cookies.cookie_store import CookieStore
from gateway.response.cookies.epoch_cache import ExpiryStepCache
from gateway.response.cookies.keys import KeyRing
from gateway.response.cookies.maker import CookieMaker
from gateway.response.crossing import Crossing, Messages
from gateway.response.fields import NULL, REPLY_TO, address_text, is_me
from gateway.response.permission import Permit, anywhere
from gateway.response.restore import LinkTarget, Restored, restore_response

__all__ = ["Annotator", "LinkTarget", "Restored", "restore_response"]

_MAP8_MAX: Final = 254
_COOKIE_KEY: Final = encode(Symbol(REQUEST_COOKIE))
_EXPIRY_KEY: Final = encode(Symbol(REQUEST_EXPIRY))


class Annotator:
    """Annotates requests of one scope, and restores their responses."""

    __slots__ = (
        "_announced",
        "_maker",
        "_origin",
        "_pending",
        "_recent",
        "_responses",
        "_ring",
        "_target",
        "_target_entry",
        "_uses",
    )

    def __init__(
        self,
        ring: KeyRing,
        origin: str,
        link_target: str,
        ttl_ms: int,
        *,
        announced: str | None = None,
        uses: int | None = None,
        store: CookieStore | None = None,
        token_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        self._ring, self._origin, self._target, self._uses = ring, origin, link_target, uses
        store = store or CookieStore(ring)
        self._pending = store.pending
        self._maker = CookieMaker(ring, origin, link_target, uses=uses, overflow=store, token_bytes=token_bytes)
        self._target_entry = encode(Symbol(REQUEST_TARGET)) + encode(announced or link_target)
        self._announced = announced or link_target
        self._responses = LinkTarget(ring, link_target, (origin,), store=store)
        self._recent: ExpiryStepCache[bytes, bytes] = ExpiryStepCache(ttl_ms)

    def annotate(
        self,
        data: bytes,
        now_ms: int,
        own: Callable[[], bytes] | None = None,
        permit: Permit = anywhere,
        *,
        answer: bool = False,
    ) -> bytes:
        """The request with the three annotations of RA 2.3; raises AmqpError where `permit` does.

        If it asks for its response over the paired link, the cookie names the encoded address that `own` returns;
        the message itself does not change (RA-2.3-8). Only an `answer` keeps the cookie of its own request.
        """
        return self.crossing(lambda: now_ms, own, permit, answer=answer)(data)

    def crossing(
        self, clock: Callable[[], int], own: Callable[[], bytes] | None, permit: Permit, *, answer: bool
    ) -> Crossing:
        """`annotate` for one sender, as a function of the request alone."""
        recent, general = self._recent.at, self._annotate

        def crossed(data: bytes) -> bytes:
            now_ms = clock()  # most requests have no annotations, and a reply-to that came before
            found = add_annotations(data, recent(now_ms))
            return general(data, now_ms, own, permit, answer) if found is ... else found

        def several(messages: Messages, start: int, end: int) -> list[bytes]:
            return annotate_run(messages, start, end, recent(clock()))

        return Crossing(crossed, several)

    def _annotate(
        self, data: bytes, now_ms: int, own: Callable[[], bytes] | None, permit: Permit, answer: bool
    ) -> bytes:
        """The general form, for any request; caches its annotations for others with the same reply-to."""
        layout = walk(data)
        reply_to = property_field(data, layout, REPLY_TO) or NULL
        if own is not None and is_me(reply_to):
            reply_to = own()
        if layout.da != layout.ma:
            return self._annotate_further(data, layout, reply_to, now_ms, permit, answer)
        recent = self._recent.at(now_ms)
        section = recent.get(reply_to)
        if section is None:
            address = address_text(reply_to, "reply-to")
            section = self._section(address, expiry_of(self._recent.expiry_ms, None))
            lasting = address is None or permit(address)
            if lasting and not self._pending and self._shared(reply_to):
                recent[reply_to] = section
        at = layout.da
        return b"".join((data[:at], section, data[at:])) if at else section + data

    def _shared(self, reply_to: bytes) -> bool:
        """Whether requests with this reply-to share a cookie: not if uses are counted, nor for `$me`."""
        return self._uses is None and not is_me(reply_to)

    def restore(self, data: bytes, now_ms: int, *, scope: str | None = None) -> Restored:
        """Verify a response that came to the link target, and restore it for its own scope.

        Cookies of `scope` count, by default of this crossing's origin; several origins share a `LinkTarget`.
        """
        if scope is None or scope == self._origin:
            return self._responses.restore(data, now_ms)
        return restore_response(self._ring, data, now_ms, link_target=self._target, scopes=(scope,))

    def _annotate_further(
        self, data: bytes, layout: SectionOffsets, reply_to: bytes, now_ms: int, permit: Permit, answer: bool
    ) -> bytes:
        """Annotate a message with delivery annotations: our cookie contains those of a previous gateway (A31)."""
        section = data[layout.da : layout.ma]
        cookie, target, until = previous_annotations(section)
        address = address_text(reply_to, "reply-to")
        self._recent.at(now_ms)
        expiry = expiry_of(self._recent.expiry_ms, until)
        entries = {
            REQUEST_COOKIE: encode_binary(self._maker.issue(address, expiry, cookie, target)),
            REQUEST_TARGET: encode(self._announced),
            REQUEST_EXPIRY: encode(Timestamp(expiry)),
        }
        if (answered := target or address) is not None:  # the address of the response (RA-2.3-17)
            permit(answered)
        return splice(data, layout, da=edit_map(section, put=entries, drop=() if answer else (RESPONSE_COOKIE,)))

    def _section(self, address: str | None, expiry: int) -> bytes:
        """The whole delivery annotations section of a request that has none yet."""
        cookie = encode_binary(self._maker.issue(address, expiry))
        when = expiry.to_bytes(8, "big")
        entries = b"%b%b%b%b\x83%b" % (_COOKIE_KEY, cookie, self._target_entry, _EXPIRY_KEY, when)
        if len(entries) <= _MAP8_MAX:
            return b"\x00\x53%c\xc1%c\x06%b" % (DELIVERY_ANNOTATIONS, len(entries) + 1, entries)
        size = (len(entries) + 4).to_bytes(4, "big")
        return b"\x00\x53%c\xd1%b\x00\x00\x00\x06%b" % (DELIVERY_ANNOTATIONS, size, entries)
