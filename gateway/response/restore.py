"""Restores responses with a cookie (RA 2.4): the cookie is verified and removed."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from gateway.amqp.codec.codec import encode_binary
from gateway.amqp.message import _sections
from gateway.amqp.message.sections import edit_map, property_field, walk
from gateway.errors import NOT_FOUND, UNAUTHORIZED_ACCESS, AmqpError
from gateway.response.annotations import RESPONSE_COOKIE, typed_entry
from gateway.response.cookies.cookie import Cookie, Expired, check_expiry, refusal
from gateway.response.cookies.cookie_store import CookieNotLoaded, CookieStore, open_or_reference
from gateway.response.cookies.epoch_cache import EpochCache
from gateway.response.cookies.keys import COOKIE, BadToken, KeyRing
from gateway.response.cookies.reader import CookieReader
from gateway.response.fields import REPLY_TO
from gateway.response.message_id import MARK

_new: Final = tuple.__new__
_MAP8: Final = b"\x00\x53\x71\xc1"
_MAP32: Final = b"\x00\x53\x71\xd1"
_ONE_KEY: Final = b"\x02\xa3\x0eaddress-cookie\xa0"  # two items: symbol, then a binary of up to 255 bytes


class Restored(NamedTuple):
    """A response, restored for the scope of its request.

    It goes to `address` in `scope`; if the request had come through a previous gateway that set a link target, to
    `target` instead (`data` then has that gateway's cookie). `onward`: the response asks for a response itself, or
    quotes an id of ours, so that it is transformed as a request. `cookie` is its cookie, for counting uses; `refuse`
    makes the error when they are used up.
    """

    scope: str
    address: str | None
    data: bytes
    target: str | None = None
    onward: bool = True
    cookie: Cookie | None = None
    refuse: Callable[[BadToken], AmqpError] = refusal


class LinkTarget:
    """An address T for responses to requests from `scopes`."""

    __slots__ = ("_address", "_reader", "_recent", "_ring", "_scopes", "_store", "_usual")

    def __init__(
        self, ring: KeyRing, address: str, scopes: Collection[str], *, store: CookieStore | None = None
    ) -> None:
        self._ring, self._address, self._scopes = ring, address, frozenset(scopes)
        self._reader = CookieReader(ring, COOKIE)
        self._recent: EpochCache[bytes, Cookie] = EpochCache()
        self._usual: EpochCache[bytes, Cookie] = EpochCache()
        """Cookies by annotations sections that contain nothing else."""
        self._store = store or CookieStore(ring)

    def restore(self, data: bytes, now_ms: int) -> Restored:
        """Restore a response for its own scope; raises the refusals of conformance 0.3.

        Raises `CookieNotLoaded` if the cookie is a reference whose content has not been fetched yet.
        """
        ring = self._ring
        epoch = ring.epoch(now_ms) if ring.dated else 0
        found = _sections.remove_annotations(data, self._usual.at(epoch), MARK)
        cookie, restored, onward = self._without_cookie(data, epoch, now_ms) if found is ... else found
        if now_ms - ring.skew_ms > cookie.expiry_ms:
            raise refusal(Expired())
        return _new(Restored, (cookie.scope, cookie.address, restored, cookie.inner_target, onward, cookie, refusal))

    def issued(self, token: bytes, now_ms: int) -> bool:
        """Whether a cookie is one of ours for this address, even if it has expired or is in shared state."""
        ring = self._ring
        recent = self._recent.at(ring.epoch(now_ms) if ring.dated else 0)
        if token not in recent:
            try:
                recent[token] = self._verified(token, now_ms)
            except AmqpError as error:
                return error.condition != UNAUTHORIZED_ACCESS
            except CookieNotLoaded:
                return True
        return True

    def _without_cookie(self, data: bytes, epoch: int, now_ms: int) -> tuple[Cookie, bytes, bool]:
        """The general form: the cookie of a response, the response without it, and whether it is also a request."""
        layout = walk(data)
        cookie, annotations = self._read(data[layout.da : layout.ma], epoch, now_ms)
        restored = b"".join((data[: layout.da], annotations, data[layout.ma :]))
        quotes = data.find(MARK, layout.properties, layout.app) >= 0
        return cookie, restored, quotes or property_field(data, layout, REPLY_TO) is not None

    def _read(self, section: bytes, epoch: int, now_ms: int) -> tuple[Cookie, bytes]:
        """The cookie among these annotations, and the other annotations; caches sections with only a cookie."""
        alone = _sole_cookie(section)
        token = _find_cookie(section) if alone is None else alone
        recent = self._recent.at(epoch)
        cookie = recent.get(token)
        if cookie is None:
            cookie = recent[token] = self._verified(token, now_ms)
        if alone is None or cookie.inner_cookie is not None:
            return cookie, restored_annotations(section if alone is None else b"", cookie)
        self._usual.at(epoch)[section] = cookie
        return cookie, b""

    def _verified(self, token: bytes, now_ms: int) -> Cookie:
        try:
            cookie, elsewhere = open_or_reference(self._reader, token, now_ms)
            if cookie.scope not in self._scopes:
                raise BadToken("wrong scope")
            if cookie.link_target != self._address:
                raise BadToken("wrong link target")
            check_expiry(cookie, now_ms - self._ring.skew_ms)
        except BadToken as fault:
            raise refusal(fault) from fault
        if elsewhere is not None:
            cookie = self._store.resolve(elsewhere, now_ms, refusal)
        if cookie.address is None and cookie.inner_target is None:
            # The request was annotated without a reply-to (A28): it has no response address.
            raise AmqpError(NOT_FOUND, "the request had no response address")
        return cookie


def restore_response(ring: KeyRing, data: bytes, now_ms: int, *, link_target: str, scopes: Collection[str]) -> Restored:
    """Restore a single response; a `LinkTarget` restores many at one address."""
    return LinkTarget(ring, link_target, scopes).restore(data, now_ms)


def restored_annotations(section: bytes, cookie: Cookie) -> bytes:
    """The annotations of a response with the previous gateway's cookie, if any, instead of ours."""
    if cookie.inner_cookie is not None:
        return edit_map(section, put={RESPONSE_COOKIE: encode_binary(cookie.inner_cookie)}) or b""
    return edit_map(section, drop=(RESPONSE_COOKIE,)) or b"" if section else b""


def _sole_cookie(section: bytes) -> bytes | None:
    """The cookie if it is the only annotation, as in nearly every response; else None."""
    if section.startswith(_ONE_KEY, 5) and section.startswith(_MAP8):
        start = 5 + len(_ONE_KEY) + 1
    elif section.startswith(_ONE_KEY, 11) and section.startswith(_MAP32) and section[8:11] == b"\0\0\0":
        start = 11 + len(_ONE_KEY) + 1
    else:
        return None
    return section[start:] if len(section) == start + section[start - 1] else None


def _find_cookie(section: bytes) -> bytes:
    token = typed_entry(section, RESPONSE_COOKIE, bytes)
    if token is None:
        raise AmqpError(
            UNAUTHORIZED_ACCESS, f"a response to this address needs the delivery annotation {RESPONSE_COOKIE}"
        ) from BadToken("no cookie")
    return token
