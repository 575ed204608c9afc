"""Cookies too long to travel: what is kept, what the reference says, and what a changed store cannot do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import pytest

from gateway.errors import NOT_FOUND, PRECONDITION_FAILED, UNAUTHORIZED_ACCESS, AmqpError
from gateway.response.annotate import Annotator, LinkTarget
from gateway.response.cookies.cookie import Cookie, CookieReference, Uses
from gateway.response.cookies.cookie_store import CookieNotLoaded, CookieStore
from gateway.response.cookies.keys import COOKIE, STORED, BadToken, KeyRing, SigningSecret
from gateway.response.cookies.maker import CookieMaker
from gateway.response.cookies.reader import open_cookie, open_token
from gateway.response.cookies.token_layout import MIN_LIMIT
from gateway.response.correlation_ids import CorrelationRestorer, CorrelationRewriter
from gateway.response.restore import Restored
from gateway.response.rewrite import Rewriter
from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import answer, cookie_of, hop_annotations

NOW = 1_700_000_000_000
RINGS = {seal: KeyRing("one", {"one": SigningSecret(b"k" * 32)}, seal=seal) for seal in (False, True)}
RING = RINGS[False]
LONG = "q/" + "x" * 600
INNER = bytes(range(256)) * 3


class Store:
    """Keeps what is pending on one store and gives it to another."""

    def __init__(self, ring: KeyRing) -> None:
        self.values: dict[str, bytes] = {}
        self.making, self.taking = CookieStore(ring, MIN_LIMIT), CookieStore(ring)

    def keep(self) -> int:
        pending, self.making.pending[:] = list(self.making.pending), []
        for pending_cookie in pending:
            self.values[pending_cookie.key] = pending_cookie.value
            pending_cookie.stored()
        return len(pending)

    def restored(self, restore: Callable[[], Restored], now: int = NOW) -> Restored:
        """As a gateway does: fetch what is missing, and ask again."""
        try:
            return restore()
        except CookieNotLoaded as missing:
            try:
                missing.load(self.values.get(missing.key, b""), now)
            except BadToken as fault:
                raise missing.refuse(fault) from fault
            return restore()


def annotated(store: Store, ring: KeyRing, reply_to: str = LONG, uses: int | None = None) -> bytes:
    annotator = Annotator(ring, "edge", "T", 300_000, uses=uses, store=store.making)
    return annotator.annotate(message(reply_to=reply_to), NOW)


@pytest.mark.parametrize("seal", [False, True])
def test_a_long_cookie_travels_as_a_reference_and_brings_its_response_home(seal: bool) -> None:
    store, ring = Store(RINGS[seal]), RINGS[seal]
    cookie = cookie_of(annotated(store, ring))
    assert store.keep() == 1
    assert len(cookie) <= MIN_LIMIT
    assert b"x" * 20 not in cookie
    target = LinkTarget(ring, "T", ("edge",), store=store.taking)
    home = store.restored(lambda: target.restore(answer(cookie), NOW))
    assert (home.scope, home.address, home.target) == ("edge", LONG, None)
    store.values.clear()
    assert target.restore(answer(cookie), NOW).address == LONG


def test_what_another_gateway_put_on_a_request_is_kept_with_it() -> None:
    store = Store(RING)
    annotator = Annotator(RING, "edge", "T", 300_000, store=store.making)
    before = {"response-address-cookie": INNER, "response-link-target-address": "T1"}
    cookie = cookie_of(annotator.annotate(message(reply_to="q/1", da=before), NOW))
    store.keep()
    assert len(cookie) <= MIN_LIMIT
    target = LinkTarget(RING, "T", ("edge",), store=store.taking)
    home = store.restored(lambda: target.restore(answer(cookie), NOW))
    assert home.target == "T1"
    assert hop_annotations(home.data)["address-cookie"] == INNER


def test_a_rewritten_address_and_an_id_may_be_references_too() -> None:
    store = Store(RING)
    rewriter = Rewriter(RING, "edge", "r", 300_000, store=store.making)
    sent = sections(rewriter.rewrite(message(reply_to=LONG, message_id="m"), NOW))["properties"]
    assert store.keep() == 1
    prefix, _, token = sent["reply_to"].partition("/")
    assert (prefix, len(token) <= MIN_LIMIT * 4 // 3) == ("r", True)
    other = Rewriter(RING, "edge", "r", 300_000, store=store.taking)
    assert other.resolve(token, NOW).scope == "edge"
    reply = message(correlation_id=sent["message_id"])
    home = store.restored(lambda: other.undo(token, reply, NOW))
    assert sections(home.data)["properties"] == {"to": LONG, "correlation_id": "m"}

    carrier = CorrelationRewriter(RING, "edge", "core", "T", 300_000, store=store.making)
    sent = sections(carrier.rewrite(message(reply_to=LONG, message_id="m"), NOW, reply_to=b"\xa1\x01q"))["properties"]
    assert store.keep() == 1
    carried = CorrelationRestorer(RING, "core", "T", ("edge",), store=store.taking)
    reply = message(correlation_id=sent["message_id"])
    home = store.restored(lambda: carried.restore(reply, NOW))
    assert sections(home.data)["properties"] == {"to": LONG, "correlation_id": "m"}


def test_equal_cookies_share_what_is_kept_once_it_is_kept() -> None:
    store = Store(RING)
    annotator = Annotator(RING, "edge", "T", 300_000, store=store.making)
    first, second = (cookie_of(annotator.annotate(message(reply_to=LONG), NOW)) for _ in range(2))
    assert first != second
    assert store.keep() == 2
    assert cookie_of(annotator.annotate(message(reply_to=LONG), NOW)) == second
    assert cookie_of(annotator.annotate(message(reply_to=LONG), NOW)) == second
    assert store.keep() == 0


def test_a_limit_of_uses_is_kept_with_the_cookie_and_makes_each_its_own() -> None:
    store = Store(RING)
    cookies = {cookie_of(annotated(store, RING, uses=2)) for _ in range(3) if store.keep() or True}
    store.keep()
    assert len(cookies) == 3
    target = LinkTarget(RING, "T", ("edge",), store=store.taking)
    limits = [store.restored(lambda c=cookie: target.restore(answer(c), NOW)).cookie for cookie in cookies]  # type: ignore[misc]
    assert [limit.uses.limit for limit in limits if limit and limit.uses] == [2, 2, 2]


def test_a_short_cookie_needs_no_store() -> None:
    store = Store(RING)
    plain = Annotator(RING, "edge", "T", 300_000).annotate(message(reply_to="q/1"), NOW)
    assert annotated(store, RING, "q/1") == plain
    assert store.making.pending == []


def test_without_a_limit_nothing_is_kept() -> None:
    with pytest.raises(AmqpError) as caught:
        Annotator(RING, "edge", "T", 300_000, store=CookieStore(RING)).annotate(message(reply_to="x" * 4096), NOW)
    assert caught.value.condition == "amqp:resource-limit-exceeded"


def refused(store: Store, cookie: bytes, **other: object) -> tuple[str, str]:
    """The condition, and the reason for the log."""
    target = LinkTarget(RING, "T", ("edge",), store=store.taking)
    with pytest.raises(AmqpError) as caught:
        store.restored(lambda: target.restore(answer(cookie), int(str(other.get("now", NOW)))))
    assert isinstance(caught.value.__cause__, BadToken)
    return caught.value.condition, caught.value.__cause__.reason


def test_whoever_writes_to_the_store_makes_no_cookie() -> None:
    store = Store(RING)
    cookies = [cookie_of(annotated(store, RING, LONG + end)) for end in ("a", "b")]
    store.keep()
    (one, kept), (other, exchanged) = store.values.items()
    for value, reason in (
        (exchanged, "changed in the store"),
        (kept[:-1] + bytes([kept[-1] ^ 1]), "changed in the store"),
        (kept + b"\0", "changed in the store"),
        (b"", "not in the store"),
    ):
        store.values[one] = value
        assert refused(store, cookies[0]) == (UNAUTHORIZED_ACCESS, reason)
    assert store.values[other] == exchanged


def test_what_is_read_in_the_store_is_no_cookie() -> None:
    store = Store(RING)
    annotated(store, RING)
    store.keep()
    (value,) = store.values.values()
    assert open_token(RING, value, NOW, STORED).address == LONG
    assert refused(store, value) == (UNAUTHORIZED_ACCESS, "wrong MAC")


def test_a_reference_that_is_changed_or_used_elsewhere_or_late_is_refused_before_anything_is_fetched() -> None:
    store = Store(RING)
    cookie = cookie_of(annotated(store, RING))
    for at in range(len(cookie)):
        changed = cookie[:at] + bytes([cookie[at] ^ 1]) + cookie[at + 1 :]
        with pytest.raises(AmqpError) as caught:
            LinkTarget(RING, "T", ("edge",)).restore(answer(changed), NOW)
        assert caught.value.condition == UNAUTHORIZED_ACCESS
    for target in (LinkTarget(RING, "T2", ("edge",)), LinkTarget(RING, "T", ("core",))):
        with pytest.raises(AmqpError) as caught:
            target.restore(answer(cookie), NOW)
        assert caught.value.condition == UNAUTHORIZED_ACCESS
    assert refused(store, cookie, now=NOW + 400_000) == (PRECONDITION_FAILED, "expired")


def test_what_a_rewritten_address_is_told_when_the_store_has_lost_it() -> None:
    store = Store(RING)
    rewriter = Rewriter(RING, "edge", "r", 300_000, store=store.making)
    sent = sections(rewriter.rewrite(message(reply_to=LONG), NOW))["properties"]
    token = sent["reply_to"].partition("/")[2]
    with pytest.raises(AmqpError) as caught:
        store.restored(lambda: rewriter.undo(token, message(), NOW))
    assert (caught.value.condition, caught.value.description) == (NOT_FOUND, "there is no such response address")


def test_the_vectors_of_the_page() -> None:
    """docs/cookies.md, vectors 7 and 8: what is kept, and the reference to it."""
    ring = KeyRing("2026-11", {"2026-11": SigningSecret(bytes(range(32)))})
    store = CookieStore(ring, 384, token_bytes=lambda count: b"\xaa" * count)
    cookie = Cookie("edge", "$responses", "r" * 400, NOW, uses=Uses(1, b"\xbb" * 12))
    reference = CookieMaker(ring, "edge", "$responses", COOKIE, overflow=store).make(cookie)
    (pending_cookie,) = store.pending
    assert pending_cookie.key == "cookie:" + "aa" * 16
    assert pending_cookie.value == CookieMaker(ring, "edge", "$responses", STORED).make(cookie)
    with pytest.raises(CookieReference) as found:
        open_cookie(ring, reference, NOW)
    assert found.value.reference == b"\xaa" * 16 + hashlib.sha256(pending_cookie.value).digest()[:16]
