"""Annotated requests and the responses that bring their cookies home (RA 2.3, 2.4), as bytes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Symbol, Timestamp, Ulong, encode, encode_map
from gateway.amqp.message.sections import (
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    Properties,
    delivery_annotations,
    map_entry,
    section,
    walk,
)
from gateway.errors import (
    DECODE_ERROR,
    INVALID_FIELD,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_LIMIT_EXCEEDED,
    UNAUTHORIZED_ACCESS,
    AmqpError,
)
from gateway.response.annotate import Annotator, LinkTarget, restore_response
from gateway.response.cookies.cookie import Cookie
from gateway.response.cookies.epoch_cache import lifetime
from gateway.response.cookies.keys import REPLY_TO, BadToken, KeyRing, SigningSecret
from gateway.response.cookies.maker import seal
from gateway.response.cookies.reader import open_cookie
from gateway.response.rewrite import Rewriter

NOW = 1_700_000_000_000
TTL = 64_000
RING = KeyRing("k", {"k": SigningSecret(b"k" * 32)})
T = "$responses"
EDGE = Annotator(RING, "edge", T, TTL)

COOKIE = "response-address-cookie"
TARGET = "response-link-target-address"
EXPIRY = "response-address-cookie-expiry"


def message(
    da: dict[str, Any] | None = None, reply_to: Any = "replies/1", *, ma: bool = True, body: bytes = b"body"
) -> bytes:
    parts = [section(HEADER, [True])]
    if da is not None:
        parts.append(section(DELIVERY_ANNOTATIONS, {Symbol(k): v for k, v in da.items()}))
    if ma:
        parts.append(section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-a"): 1}))
    parts.append(section(PROPERTIES, [Ulong(7), b"user", "svc/echo", None, reply_to, "c-1"]))
    parts.append(section(APPLICATION_PROPERTIES, {"a": 1}))
    return b"".join(
        [*parts, section(DATA, body), section(DATA, body), section(FOOTER, {Symbol("x-opt-f"): 1})]
    )


def annotations(data: bytes) -> dict[Any, Any]:
    return delivery_annotations(data, walk(data))


def rest(data: bytes) -> tuple[bytes, bytes]:
    """Everything but the delivery annotations."""
    layout = walk(data)
    return data[: layout.da], data[layout.ma :]


def response(cookie: object, da: dict[str, Any] | None = None) -> bytes:
    return message({**(da or {}), "address-cookie": cookie}, None)


def cookie_of(data: bytes) -> bytes:
    value = annotations(data)[COOKIE]
    assert type(value) is bytes
    return value


def refusal(data: bytes, annotator: Annotator = EDGE, now_ms: int = NOW) -> AmqpError:
    with pytest.raises(AmqpError) as caught:
        annotator.restore(data, now_ms)
    return caught.value


@pytest.mark.row("RA-1-2", "RA-2-1", "RA-3-2")
@pytest.mark.parametrize("ma", [True, False])
def test_three_annotations_and_the_rest_byte_equal(ma: bool) -> None:
    request = message(ma=ma)
    annotated = EDGE.annotate(request, NOW)
    assert set(annotations(annotated)) == {COOKIE, TARGET, EXPIRY}
    assert rest(annotated) == rest(request)
    opened = open_cookie(RING, cookie_of(annotated), NOW)
    assert opened == Cookie("edge", T, "replies/1", NOW + TTL)


@pytest.mark.row("RA-2.3-2", "RA-2.3-6", "RA-2.3-12", "RA-2.3-13")
@pytest.mark.parametrize("target", [T, "t" * 300])
def test_wire_types(target: str) -> None:
    annotated = Annotator(RING, "edge", target, TTL).annotate(message(), NOW)
    layout = walk(annotated)
    da = annotated[layout.da : layout.ma]
    cookie, address, expiry = (map_entry(da, name) for name in (COOKIE, TARGET, EXPIRY))
    assert cookie is not None
    assert cookie[0] in (0xA0, 0xB0)
    assert address == encode(target)
    assert expiry == b"\x83" + (NOW + TTL).to_bytes(8, "big")


def test_a_message_of_nothing_but_a_body_is_annotated_too() -> None:
    body = section(DATA, b"x")
    annotated = EDGE.annotate(body, NOW)
    assert rest(annotated) == (b"", body)
    assert open_cookie(RING, cookie_of(annotated), NOW).address is None


def test_what_is_remembered_does_not_mix_up_clients() -> None:
    annotator = Annotator(RING, "edge", T, TTL)
    for now_ms in (NOW, NOW, NOW + 1, NOW + 1000):
        for reply_to in ("a", "b", None, "a", ""):
            cookie = cookie_of(annotator.annotate(message(reply_to=reply_to), now_ms))
            assert open_cookie(RING, cookie, NOW) == Cookie("edge", T, reply_to, lifetime(now_ms, TTL))


@pytest.mark.row("RA-2-1", "RA-2-3")
def test_without_reply_to_the_response_is_not_found() -> None:
    cookie = cookie_of(EDGE.annotate(message(reply_to=None), NOW))
    assert refusal(response(cookie)).condition == NOT_FOUND


@pytest.mark.row("RA-2.4-3", "RA-2.4-5", "RA-3-4")
def test_a_response_goes_to_the_cookies_address_and_loses_only_the_cookie() -> None:
    cookie = cookie_of(EDGE.annotate(message(), NOW))
    for _ in range(3):
        sent = response(cookie, {"x-opt-other": 5})
        restored = EDGE.restore(sent, NOW + TTL)
        assert (restored.scope, restored.address, restored.target) == ("edge", "replies/1", None)
        assert annotations(restored.data) == {"x-opt-other": 5}
        assert rest(restored.data) == rest(sent)


def da_section(entries: list[tuple[bytes, bytes]], wide: bool = False) -> bytes:
    if not wide:
        return b"\0\x53\x71" + encode_map(entries)
    payload = b"".join(key + value for key, value in entries)
    head = (len(payload) + 4).to_bytes(4, "big") + (2 * len(entries)).to_bytes(4, "big")
    return b"\0\x53\x71\xd1" + head + payload


SYM8 = encode(Symbol("address-cookie"))
SYM32 = b"\xb3" + (14).to_bytes(4, "big") + b"address-cookie"
OTHER_ENTRY = (encode(Symbol("x-opt-o")), encode("address-cookie"))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("key", [SYM8, SYM32])
@pytest.mark.parametrize("wide_value", [False, True])
@pytest.mark.parametrize("where", ["alone", "first", "last"])
def test_every_encoding_of_the_cookie_is_found_and_taken_off(
    wide: bool, key: bytes, wide_value: bool, where: str
) -> None:
    cookie = cookie_of(EDGE.annotate(message(), NOW))
    value = b"\xb0" + len(cookie).to_bytes(4, "big") + cookie if wide_value else encode(cookie)
    entries = {"alone": [], "first": [OTHER_ENTRY], "last": [OTHER_ENTRY]}[where]
    entries.insert(len(entries) if where == "last" else 0, (key, value))
    sent = da_section(entries, wide) + message()
    sent = sent.replace(section(HEADER, [True]), b"")
    restored = EDGE.restore(sent, NOW)
    assert restored.address == "replies/1"
    assert annotations(restored.data) == ({} if where == "alone" else {"x-opt-o": "address-cookie"})
    assert restored.data.endswith(rest(sent)[1])
    if where == "alone":
        assert restored.data == rest(sent)[1]


@pytest.mark.row("RA-2.3-17")
def test_two_gateways_in_a_row() -> None:
    first = Annotator(RING, "a", "T1", 1_000)
    second = Annotator(KeyRing("z", {"z": SigningSecret(b"z" * 32)}), "b", "T2", 60_000)
    once = first.annotate(message({"x-opt-x": 1}), NOW)
    twice = second.annotate(once, NOW)
    assert rest(twice) == rest(once)
    assert annotations(twice)[TARGET] == "T2"
    assert annotations(twice)[EXPIRY] == NOW + 1_000  # the earlier of both
    assert annotations(twice)["x-opt-x"] == 1

    home = second.restore(response(cookie_of(twice)), NOW)
    assert (home.scope, home.address, home.target) == ("b", "replies/1", "T1")
    assert annotations(home.data) == {"address-cookie": cookie_of(once)}
    last = first.restore(home.data, NOW)
    assert (last.scope, last.address, last.target) == ("a", "replies/1", None)
    assert refusal(response(cookie_of(twice)), second, NOW + 1_001).condition == PRECONDITION_FAILED


@pytest.mark.row("RA-2.3-17")
def test_a_previous_gateways_request_without_reply_to_is_still_answered_at_its_link_target() -> None:
    request = message({COOKIE: b"theirs", TARGET: "T0"}, None)
    home = EDGE.restore(response(cookie_of(EDGE.annotate(request, NOW))), NOW)
    assert (home.address, home.target) == (None, "T0")
    assert annotations(home.data) == {"address-cookie": b"theirs"}


@pytest.mark.parametrize(
    "previous", [{COOKIE: b""}, {TARGET: "T0"}, {EXPIRY: Timestamp(NOW - 1)}, {EXPIRY: Timestamp(-1)}]
)
def test_partial_annotations_of_a_previous_gateway(previous: dict[str, Any]) -> None:
    annotated = EDGE.annotate(message(previous), NOW)
    cookie = open_cookie(RING, cookie_of(annotated), 0)
    assert cookie.inner_cookie == previous.get(COOKIE)
    assert cookie.inner_target == previous.get(TARGET)
    assert cookie.expiry_ms == max(0, previous.get(EXPIRY, NOW + TTL)) == annotations(annotated)[EXPIRY]


@pytest.mark.row("RA-2.3-2", "RA-2.3-13")
@pytest.mark.parametrize(
    "previous",
    [
        {COOKIE: "text"},
        {COOKIE: None},
        {TARGET: Symbol("T")},
        {TARGET: b"T"},
        {EXPIRY: NOW},
        {EXPIRY: Ulong(NOW)},
    ],
)
def test_wrong_types_from_a_previous_gateway(previous: dict[str, Any]) -> None:
    with pytest.raises(AmqpError) as caught:
        EDGE.annotate(message(previous), NOW)
    assert caught.value.condition == INVALID_FIELD
    assert caught.value.info == {"field": next(iter(previous))}


@pytest.mark.row("RA-2.4-2")
@pytest.mark.parametrize("value", ["text", Symbol("text"), None, 5, [b"x"]])
def test_a_cookie_of_another_type(value: object) -> None:
    error = refusal(response(value))
    assert (error.condition, error.info) == (INVALID_FIELD, {"field": "address-cookie"})


@pytest.mark.row("RA-2.3-11")
@pytest.mark.parametrize("da", [None, {}, {"x-opt-a": b"address-cookie"}])
def test_a_response_without_a_cookie(da: dict[str, Any] | None) -> None:
    error = refusal(message(da))
    assert error.condition == UNAUTHORIZED_ACCESS
    assert isinstance(error.__cause__, BadToken)


@pytest.mark.row("RA-2.3-14")
def test_expiry_is_judged_by_the_cookie() -> None:
    sent = response(cookie_of(EDGE.annotate(message(), NOW)))
    assert EDGE.restore(sent, NOW + TTL).address == "replies/1"
    assert refusal(sent, now_ms=NOW + TTL + 1).condition == PRECONDITION_FAILED


@pytest.mark.row("RA-2.4-4")
def test_every_reason_to_refuse_is_the_same_to_the_peer() -> None:
    good = Cookie("edge", T, "replies/1", NOW)
    stranger = KeyRing("k", {"k": SigningSecret(b"s" * 32)})
    tokens = {
        "wrong scope": seal(RING, good._replace(scope="core", expiry_ms=0)),
        "wrong link target": seal(RING, good._replace(link_target="elsewhere", expiry_ms=0)),
        "wrong MAC": seal(stranger, good),
        "unknown key": seal(KeyRing("x", {"x": SigningSecret(b"k" * 32)}), good),
        "wrong length": b"",
    }
    reported = set()
    for reason, token in tokens.items():
        error = refusal(response(token))
        assert isinstance(error.__cause__, BadToken)
        assert error.__cause__.reason == reason
        reported.add((error.condition, error.description, *error.info))
    reported.add(
        (
            refusal(response(seal(RING, good, REPLY_TO))).condition,
            "the response address cookie is not valid here",
        )
    )
    assert reported == {(UNAUTHORIZED_ACCESS, "the response address cookie is not valid here")}


@pytest.mark.row("RA-2.4-4")
def test_an_old_key_within_its_rotation_window() -> None:
    sent = response(cookie_of(EDGE.annotate(message(), NOW)))
    rotated = KeyRing("new", {"new": SigningSecret(b"n" * 32), "k": SigningSecret(b"k" * 32, until_ms=NOW + 5)})
    annotator = Annotator(rotated, "edge", T, TTL)
    assert annotator.restore(sent, NOW + 5).address == "replies/1"
    assert refusal(sent, annotator, NOW + 6).condition == UNAUTHORIZED_ACCESS


def test_a_cookie_is_ours_when_it_has_expired_but_not_under_a_retired_key() -> None:
    token = cookie_of(EDGE.annotate(message(), NOW))
    rotated = KeyRing("new", {"new": SigningSecret(b"n" * 32), "k": SigningSecret(b"k" * 32, until_ms=NOW + 5)})
    target, later = LinkTarget(RING, T, ["edge"]), LinkTarget(rotated, T, ["edge"])
    assert [target.issued(token, NOW), target.issued(token, NOW + TTL + 1)] == [True, True]
    assert [later.issued(token, NOW + 5), later.issued(token, NOW + 6)] == [True, False]
    assert not LinkTarget(KeyRing("k", {"k": SigningSecret(b"x" * 32)}), T, ["edge"]).issued(token, NOW)


def test_what_was_verified_once_is_not_believed_after_its_time() -> None:
    annotator = Annotator(RING, "edge", T, TTL)
    sent = response(cookie_of(annotator.annotate(message(), NOW)))
    annotator.restore(sent, NOW + TTL)
    assert refusal(sent, annotator, NOW + TTL + 1).condition == PRECONDITION_FAILED


def test_a_link_target_that_several_origins_share() -> None:
    shared = LinkTarget(RING, T, ("edge", "core"))
    for scope in ("edge", "core"):
        sent = response(cookie_of(Annotator(RING, scope, T, TTL).annotate(message(), NOW)))
        assert shared.restore(sent, NOW).scope == scope
        assert EDGE.restore(sent, NOW, scope=scope).scope == scope
    other = response(cookie_of(Annotator(RING, "third", T, TTL).annotate(message(), NOW)))
    with pytest.raises(AmqpError, match=UNAUTHORIZED_ACCESS):
        restore_response(RING, other, NOW, link_target=T, scopes=("edge", "core"))


@pytest.mark.parametrize(
    ("reply_to", "condition"),
    [(Symbol("q"), INVALID_FIELD), (b"q", INVALID_FIELD), ("q" * 5000, RESOURCE_LIMIT_EXCEEDED)],
)
def test_a_reply_to_that_cannot_be_used(reply_to: object, condition: str) -> None:
    with pytest.raises(AmqpError) as caught:
        EDGE.annotate(message(reply_to=reply_to), NOW)
    assert caught.value.condition == condition


def test_a_long_reply_to_is_carried() -> None:
    annotated = EDGE.annotate(message(reply_to="q" * 3000), NOW)
    assert EDGE.restore(response(cookie_of(annotated)), NOW).address == "q" * 3000


@pytest.mark.parametrize(
    "properties",
    [
        b"\xc0\x02\x05\x40",  # five fields, one there
        b"\xc0\x09\x05\x40\x40\x40\x40\xa1\x02\xff\xfe",  # not UTF-8
        b"\xc0\x08\x05\x40\x40\x40\x40\xa1\x09a",  # the reply-to reaches out of the section
    ],
)
def test_malformed_properties(properties: bytes) -> None:
    with pytest.raises(AmqpError) as caught:
        EDGE.annotate(b"\x00\x53\x73" + properties + section(DATA, b"x" * 20), NOW)
    assert caught.value.condition == DECODE_ERROR


@pytest.mark.parametrize("sealing", [False, True])
def test_with_a_limit_of_uses_each_request_has_a_cookie_of_its_own(sealing: bool) -> None:
    """The limit and its nonce come back with the response, for who counts."""
    ring = KeyRing("k", {"k": SigningSecret(b"k" * 32)}, seal=sealing)
    annotator, rewriter = Annotator(ring, "edge", T, TTL, uses=2), Rewriter(ring, "edge", T, TTL, uses=3)
    nonces = set()
    for _ in range(20):
        home = annotator.restore(response(cookie_of(annotator.annotate(message(), NOW))), NOW).cookie
        asked = rewriter.rewrite(message(), NOW)
        reply_to = Properties(asked, walk(asked)).reply_to
        assert home is not None
        assert home.uses is not None
        assert reply_to is not None
        reported = rewriter.resolve(reply_to.removeprefix(f"{T}/"), NOW).uses
        assert reported is not None
        assert (home.uses.limit, reported.limit) == (2, 3)
        nonces |= {home.uses.nonce, reported.nonce}
    assert len(nonces) == 40


@pytest.mark.parametrize("sealing", [False, True])
def test_without_a_limit_the_requests_of_one_client_share_a_cookie(sealing: bool) -> None:
    annotator = Annotator(KeyRing("k", {"k": SigningSecret(b"k" * 32)}, seal=sealing), "edge", T, TTL)
    assert len({cookie_of(annotator.annotate(message(), NOW)) for _ in range(5)}) == 1


def test_me_is_another_address_for_each_pair() -> None:
    """`$me` is remembered under what it stands for, never as itself (CORE-10)."""
    annotator = Annotator(RING, "edge", T, TTL)
    owns = [None, lambda: encode("pair/1"), lambda: encode("pair/2"), lambda: encode("pair/1"), None]
    asked = [annotator.annotate(message(reply_to="$me"), NOW, own) for own in owns]
    homes = [annotator.restore(response(cookie_of(each)), NOW).address for each in asked]
    assert homes == ["$me", "pair/1", "pair/2", "pair/1", "$me"]
    assert asked[1] == asked[3]


def test_a_remembered_cookie_expires_and_its_key_retires() -> None:
    """A cookie that was verified once is checked against the time at each use."""
    ring = KeyRing("n", {"n": SigningSecret(b"n" * 32), "k": SigningSecret(b"k" * 32, NOW + 10)})
    sent = response(cookie_of(Annotator(RING, "edge", T, TTL).annotate(message(), NOW)))
    aged, retired = LinkTarget(RING, T, ("edge",)), LinkTarget(ring, T, ("edge",))
    assert {target.restore(sent, NOW + 10).address for target in (aged, retired) for _ in range(3)} == {"replies/1"}
    for target, later, condition in (
        (aged, NOW + 2 * TTL, PRECONDITION_FAILED),
        (retired, NOW + 11, UNAUTHORIZED_ACCESS),
    ):
        with pytest.raises(AmqpError, match=condition):
            target.restore(sent, later)
