"""Forged and misused cookies and rewritten addresses: outcomes as in the error table; none arrives (RA 2.4, 2.5)."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from gateway.amqp.codec.codec import Long, Symbol
from gateway.response.cookies.base64url import to_url
from gateway.response.cookies.cookie import Cookie
from gateway.response.cookies.keys import COOKIE, REPLY_TO, KeyRing, SigningSecret
from gateway.response.cookies.maker import seal
from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import SENDER
from tests.support.gateway.crossing import KEY, Inbox, Outbox, Place, answer, connected, cookie_of, pair, start
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until

UNAUTHORIZED = "amqp:unauthorized-access"
SECRET = base64.urlsafe_b64decode(KEY + "=")
RING = KeyRing("one", {"one": SigningSecret(SECRET)})
FAR = 1 << 42
"""A time in ms after the end of all tests."""


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway)


class ReceivedRequest(NamedTuple):
    """A request that arrived: the data for its response, and the receiver of the response."""

    cookie: bytes
    reply_to: str
    answers: Inbox


@pytest.fixture(scope="module")
def received(place: Place) -> ReceivedRequest:
    service, client, answers, reply_to = pair(place, capable=True)
    client.post(message(reply_to=reply_to))
    cookie = cookie_of(service.take())
    service, client, _, _ = pair(place, capable=False)
    client.post(message(reply_to=reply_to))
    return ReceivedRequest(cookie, sections(service.take())["properties"]["reply_to"], answers)


def other_ring(key: str = "one") -> KeyRing:
    return KeyRing(key, {key: SigningSecret(b"another secret of thirty-two bytes")})


def flipped(data: bytes, at: int) -> bytes:
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


GOOD = Cookie("edge", "$replies.core", "q/forged", FAR)
BAD: dict[str, Callable[[bytes], Any]] = {
    "first byte": lambda cookie: flipped(cookie, 0),
    "flags": lambda cookie: flipped(cookie, 1),
    "key id": lambda cookie: flipped(cookie, 3),
    "scope": lambda cookie: flipped(cookie, 10),
    "last byte": lambda cookie: flipped(cookie, len(cookie) - 1),
    "cut off": lambda cookie: cookie[:-1],
    "longer": lambda cookie: cookie + b"\0",
    "empty": lambda cookie: b"",
    "noise": lambda cookie: bytes(range(256)),
    "huge": lambda cookie: b"\1" * 50_000,
    "other key": lambda cookie: seal(other_ring(), GOOD),
    "unknown key id": lambda cookie: seal(other_ring("two"), GOOD),
    "no such scope": lambda cookie: seal(RING, GOOD._replace(scope="nowhere")),
    "other link target": lambda cookie: seal(RING, GOOD._replace(link_target="$replies.edge")),
    "other purpose": lambda cookie: seal(RING, GOOD, REPLY_TO),
}


@pytest.mark.row("RA-2.4-4")
@pytest.mark.parametrize("way", ["$replies.core", None])
def test_bad_cookies_are_rejected_in_the_same_words(place: Place, received: ReceivedRequest, way: str | None) -> None:
    replies = Outbox(place.core, way)
    reported = set()
    for name, spoil in BAD.items():
        outcome = replies.send(answer(spoil(received.cookie), to="$replies.core"), delivery_tag=name.encode())
        assert outcome.matches({"error": UNAUTHORIZED}), name
        assert outcome["error"]["info"] == {Symbol("delivery-tag"): name.encode()}
        reported.add(outcome["error"]["description"])
    assert len(reported) == 1
    assert received.answers.empty()


@pytest.mark.row("RA-2.4-4")
def test_a_cookie_works_in_the_scope_that_got_it_only(place: Place, received: ReceivedRequest) -> None:
    outcome = Outbox(place.edge, "$replies.edge").send(answer(received.cookie))
    assert outcome.matches({"error": UNAUTHORIZED})


@pytest.mark.row("RA-2.3-2", "RA-2.4-2")
@pytest.mark.parametrize("cookie", ["text", 7, [b"a"], None, Symbol("s")])
def test_a_cookie_that_is_not_binary_is_an_invalid_field(place: Place, cookie: object) -> None:
    outcome = Outbox(place.core, "$replies.core").send(answer(cookie))
    assert outcome.matches({"error": "amqp:invalid-field"})
    assert outcome["error"]["info"][Symbol("field")] == Symbol("address-cookie")


@pytest.mark.row("RA-2.3-11")
def test_a_response_without_a_cookie_is_unauthorized(place: Place) -> None:
    replies = Outbox(place.core, "$replies.core")
    assert replies.send(message(to="q/1")).matches({"error": UNAUTHORIZED})
    assert replies.send(message(da={"x-opt-other": 1})).matches({"error": UNAUTHORIZED})


@pytest.mark.row("RA-2.4-4", "AT-2.2.2-6")
@pytest.mark.parametrize("tag", [b"\x01\x02", b"\x00", bytes(range(32))])
@pytest.mark.parametrize("mode", ["settled", "accepted only"])
def test_who_cannot_hear_a_rejection_is_detached(
    place: Place, received: ReceivedRequest, tag: bytes, mode: str
) -> None:
    source = frames.source(outcomes=["amqp:accepted:list"] if mode == "accepted only" else None)
    replies = Outbox(place.core, "$replies.core", source=source)
    bad = answer(flipped(received.cookie, 20))
    detach = replies.fails(bad, delivery_tag=tag, settled=mode == "settled")
    assert detach.error["condition"] == UNAUTHORIZED
    assert detach.error["info"] == {Symbol("delivery-tag"): tag}
    assert type(detach.error["info"][Symbol("delivery-tag")]) is bytes


FORGED: dict[str, Callable[[str], str]] = {
    "garbage": lambda token: "garbage",
    "first": lambda token: "B" + token[1:],
    "cut off": lambda token: token[:-4],
    "padded": lambda token: token + "==",
    "other key": lambda token: to_url(seal(other_ring(), GOOD, REPLY_TO)).decode(),
    "a cookie": lambda token: to_url(seal(RING, GOOD, COOKIE)).decode(),
    "wrong scope": lambda token: to_url(seal(RING, GOOD._replace(scope="nowhere"), REPLY_TO)).decode(),
    "empty": lambda token: "",
}


@pytest.mark.row("RA-2.5-9")
@pytest.mark.parametrize("name", FORGED)
def test_forged_reply_addresses_are_not_found(place: Place, received: ReceivedRequest, name: str) -> None:
    prefix, _, token = received.reply_to.partition("/")
    address = f"{prefix}/{FORGED[name](token)}"
    peer = connected(place.core)
    peer.attach("forged", SENDER, target=frames.target(address))
    peer.expect("attach", target=None)
    detach = peer.expect("detach", closed=True)
    assert detach.error["condition"] == ("amqp:not-found")
    outcome = Outbox(place.core, None).send(message(to=address))
    assert outcome.matches({"error": "amqp:not-found"})
    assert received.answers.empty()


MISSPELLED = (
    "/{}", "queue://{}", "amqp://host/{}", "{}/$info", "{}\n", "x-{}",
    "$REPLIES.core/{token}", "$replies.core//{token}", "$replies.core.{token}", "$replies.core_{token}",
    "$replies/core/{token}", "%24replies.core/{token}", "%2524replies.core%252F{token}", ".core/{token}", "{token}",
)  # fmt: skip


def test_misspelled_reply_addresses_lead_nowhere(place: Place, received: ReceivedRequest) -> None:
    """The last test of this file looks for their token in the log."""
    token = received.reply_to.partition("/")[2]
    anonymous, peer = Outbox(place.core, None), connected(place.core)
    for handle, spelling in enumerate(MISSPELLED):
        address = spelling.format(received.reply_to, token=token)
        assert anonymous.send(message(to=address)).matches({"error": "amqp:not-found"}), spelling
        peer.attach(f"to {address}", SENDER, handle, target=frames.target(address))
        peer.expect("attach", target=None)
        peer.expect("detach", closed=True, error="amqp:not-found")
    assert received.answers.empty()


@pytest.mark.row("RA-2.3-13")
def test_previous_annotations_of_a_wrong_type_are_invalid_fields(place: Place) -> None:
    for capable in (True, False):
        service, client, _, reply_to = pair(place, capable=capable)
        wrong = {
            "response-address-cookie": "text",
            "response-link-target-address": b"binary",
            "response-address-cookie-expiry": Long(5),
        }
        for name, value in wrong.items():
            outcome = client.send(message(reply_to=reply_to, da={name: value}))
            assert outcome.matches({"error": "amqp:invalid-field"}), name
        assert service.empty()


@pytest.mark.row("RA-2.3-14", "RA-2.5-9")
def test_what_has_expired_says_so(start_gateway: Gateways) -> None:
    place = start(start_gateway, "gw-brief", expiry="8s")
    service, client, answers, reply_to = pair(place, capable=True)
    client.post(message(reply_to=reply_to))
    cookie = cookie_of(service.take())
    rewritten, other, _, _ = pair(place, capable=False)
    other.post(message(reply_to=reply_to))
    address = sections(rewritten.take())["properties"]["reply_to"]
    annotated, direct = Outbox(place.core, "$replies.core"), Outbox(place.core, address)
    assert annotated.send_and_accept(answer(cookie), answers).matches("accepted")
    assert direct.send_and_accept(message(), answers).matches("accepted")
    until = time.time() + 8.2  # rounded up, so that cookies repeat
    wait_until(lambda: time.time() > until, "the cookie to expire")
    anonymous = Outbox(place.core, None)
    expired = {"error": "amqp:precondition-failed"}
    assert annotated.send(answer(cookie)).matches(expired)
    assert direct.send(message()).matches(expired)
    assert anonymous.send(message(to=address)).matches(expired)
    assert answers.empty()
    peer = connected(place.core)
    peer.attach("late", SENDER, target=frames.target(address))
    peer.expect("attach", target=None)
    peer.expect("detach", closed=True, error="amqp:precondition-failed")


def test_a_key_off_the_ring_ends_what_it_signed(start_gateway: Gateways) -> None:
    """Rotation: the old key verifies while it is on the ring; a reload removes it, for open links, too."""
    place = start(start_gateway)
    service, client, answers, reply_to = pair(place, capable=True)
    client.post(message(reply_to=reply_to))
    cookie = cookie_of(service.take())
    replies = Outbox(place.core, "$replies.core")
    policy = place.gateway.policy.read_text()
    ring = "keys: {active: one, ring: {one: {env: SCOPEGATE_TEST_KEY}}"
    assert ring in policy
    (place.gateway.policy.parent / "new-key").write_text("bmV3" * 10 + "bmU")
    both = "keys: {active: two, ring: {one: {env: SCOPEGATE_TEST_KEY}, two: {file: new-key}}"
    place.gateway.reload(policy.replace(ring, both))
    assert replies.send_and_accept(answer(cookie), answers).matches("accepted")
    client.post(message(reply_to=reply_to))
    fresh = cookie_of(service.take())
    assert b"\x03two" in fresh
    place.gateway.reload(policy.replace(ring, "keys: {active: two, ring: {two: {file: new-key}}"))
    assert replies.send(answer(cookie)).matches({"error": UNAUTHORIZED})
    assert replies.send_and_accept(answer(fresh), answers).matches("accepted")


def test_the_log_shows_no_cookie_token_or_secret(place: Place, received: ReceivedRequest) -> None:
    """After all tests above, the log has the refused links and messages, but not their cookies and tokens."""
    log = place.gateway.process.text()
    assert '"event": "message refused"' in log
    assert '"event": "link refused"' in log
    token = received.reply_to.partition("/")[2]
    secrets = [
        KEY,
        SECRET.decode(),
        token,
        token[:24],
        to_url(received.cookie).decode()[:24],
        received.cookie.hex()[:24],
    ]
    assert [secret for secret in secrets if secret in log] == []
    reasons = {line["reason"] for line in place.gateway.log() if "reason" in line}
    assert {"wrong link target", "wrong length"} <= reasons
