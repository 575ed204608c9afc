"""Rewritten requests and what is undone on the way back (RA 2.5), as bytes."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from gateway.amqp.codec.codec import Symbol, Timestamp, Uint, Ulong, encode
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
    property_field,
    replace_properties,
    section,
    walk,
)
from gateway.errors import (
    INVALID_FIELD,
    NOT_FOUND,
    PRECONDITION_FAILED,
    RESOURCE_LIMIT_EXCEEDED,
    AmqpError,
)
from gateway.response.annotate import Annotator
from gateway.response.cookies.base64url import to_url
from gateway.response.cookies.cookie import Cookie
from gateway.response.cookies.keys import REPLY_TO, BadToken, KeyRing, SigningSecret
from gateway.response.cookies.maker import seal
from gateway.response.restore import Restored
from gateway.response.rewrite import Rewriter

NOW = 1_700_000_000_000
TTL = 64_000
RING = KeyRing("k", {"k": SigningSecret(b"k" * 32)})
IDS = [Ulong(0), Ulong(42), Ulong(2**40), uuid.UUID(int=5), b"\x00\xff", "text", "ID:sg-nonsense", None]


def out() -> Rewriter:
    """The crossing edge to core; each call is as good as another process with the same keys."""
    return Rewriter(RING, "edge", "$replies", TTL, destination="core")


def back() -> Rewriter:
    return Rewriter(RING, "core", "$answers", TTL, destination="edge")


def message(properties: list[Any], da: dict[str, Any] | None = None) -> bytes:
    parts = [section(HEADER, [True])]
    if da is not None:
        parts.append(section(DELIVERY_ANNOTATIONS, {Symbol(k): v for k, v in da.items()}))
    parts += [
        section(MESSAGE_ANNOTATIONS, {Symbol("x-opt-a"): 1}),
        section(PROPERTIES, properties),
        section(APPLICATION_PROPERTIES, {"a": 1}),
        section(DATA, b"x"),
        section(DATA, b"y"),
        section(FOOTER, {Symbol("x-opt-f"): b"signature"}),
    ]
    return b"".join(parts)


def request(message_id: Any = "m-1", correlation_id: Any = None, reply_to: Any = "q") -> bytes:
    tail = [Symbol("text/plain"), None, Timestamp(9), None, "group", Uint(3)]
    return message([message_id, b"user", "svc/echo", "subject", reply_to, correlation_id, *tail])


def answer(
    to: bytes, message_id: Any = "r-1", reply_to: Any = None, da: dict[str, Any] | None = None
) -> bytes:
    """What any responder makes of a request: `to` from reply-to, correlation-id from message-id."""
    asked = fields(to)
    return message([message_id, None, asked.reply_to, None, reply_to, asked.message_id], da)


def fields(data: bytes) -> Properties:
    return Properties(data, walk(data))


def token(data: bytes, prefix: str = "$replies") -> str:
    reply_to = fields(data).reply_to
    assert reply_to is not None
    assert reply_to.startswith(prefix + "/")
    return reply_to[len(prefix) + 1 :]


def undo(asked: bytes, response: bytes, rewriter: Rewriter | None = None) -> Restored:
    return (rewriter or out()).undo(token(asked), response, NOW)


def raw(data: bytes, index: int) -> bytes | None:
    return property_field(data, walk(data), index)


def without(data: bytes, *indexes: int) -> bytes:
    """The message with these properties blanked, to compare the others byte for byte."""
    return replace_properties(data, walk(data), dict.fromkeys(indexes, b"\x40"))


@pytest.mark.row("RA-2.5-2", "RA-2.5-3", "RA-2.5-4", "RA-3-3")
def test_a_new_id_a_new_reply_to_and_the_rest_byte_equal() -> None:
    original = request()
    first, second = out().rewrite(original, NOW), out().rewrite(original, NOW)
    ids = {fields(m).message_id for m in (original, first, second)}
    assert len(ids) == 3
    assert "q" not in (fields(first).reply_to or "").split("/")
    assert without(first, 0, 4) == without(original, 0, 4)


@pytest.mark.row("RA-2.5-2")
def test_ids_of_one_crossing_are_all_different() -> None:
    rewriter = out()
    assert len({fields(rewriter.rewrite(request(None), NOW)).message_id for _ in range(100)}) == 100


@pytest.mark.row("RA-2.5-6", "RA-2.5-7")
@pytest.mark.parametrize("message_id", IDS)
def test_the_answer_quotes_the_original_id_with_its_type(message_id: object) -> None:
    original = request(message_id)
    asked = out().rewrite(original, NOW)
    assert fields(asked).message_id not in (None, message_id)
    response = answer(asked)
    home = undo(asked, response)
    assert (home.scope, home.address, home.target) == ("edge", "q", None)
    assert raw(home.data, 2) == encode("q")
    assert raw(home.data, 5) == raw(original, 0)
    assert without(home.data, 0, 2, 5) == without(response, 0, 2, 5)


@pytest.mark.parametrize("encoded", [b"\x80" + bytes(8), b"\xb0\0\0\0\x01x", b"\xb1\0\0\0\x01x", b"\x44"])
def test_an_id_comes_back_in_the_very_encoding_it_had(encoded: bytes) -> None:
    base = request()
    original = replace_properties(base, walk(base), {0: encoded})
    asked = out().rewrite(original, NOW)
    assert raw(undo(asked, answer(asked)).data, 5) == encoded


@pytest.mark.row("RA-2.5-7")
@pytest.mark.parametrize("correlation_id", [*IDS, "ID:sg-", "ID:sg-AAAA", b"ID:sg-AQ", "x" * 300])
def test_any_other_correlation_id_passes_unchanged_both_ways(correlation_id: object) -> None:
    original = request("m", correlation_id)
    asked = out().rewrite(original, NOW)
    assert raw(asked, 5) == raw(original, 5)
    response = message(["r", None, None, None, None, correlation_id])
    assert raw(undo(asked, response).data, 5) == raw(response, 5)


def flipped(text: object) -> str:
    assert isinstance(text, str)
    return text[:-9] + ("A" if text[-9] != "A" else "B") + text[-8:]


@pytest.mark.row("RA-2.5-7")
def test_a_forged_id_passes_unchanged() -> None:
    asked = out().rewrite(request(), NOW)
    forged = flipped(fields(asked).message_id)
    assert fields(undo(asked, message(["r", None, None, None, None, forged])).data).correlation_id == forged
    stranger = Rewriter(KeyRing("k", {"k": SigningSecret(b"s" * 32)}), "edge", "$replies", TTL)
    theirs = fields(stranger.rewrite(request(), NOW)).message_id
    assert fields(undo(asked, message(["r", None, None, None, None, theirs])).data).correlation_id == theirs


@pytest.mark.row("RA-2.5-8")
def test_a_response_gets_a_new_id_where_the_destination_is_named() -> None:
    asked = out().rewrite(request(), NOW)
    assert fields(undo(asked, answer(asked, "r-1")).data).message_id != "r-1"
    plain = Rewriter(RING, "edge", "$replies", TTL)
    assert fields(undo(asked, answer(asked, "r-1"), plain).data).message_id == "r-1"
    assert fields(undo(asked, answer(asked, None)).data).message_id is None


@pytest.mark.row("RA-2.5-6", "RA-2.5-7", "RA-2.5-8")
@pytest.mark.parametrize("first_id", IDS)
@pytest.mark.parametrize("direct", [False, True], ids=["by-reply-to", "by-address"])
def test_a_dialogue_of_several_turns(first_id: object, direct: bool) -> None:
    """Both sides see only ids of their own scope, whichever way the next turn takes."""
    asked = out().rewrite(request(first_id), NOW)
    seen_by_service = fields(asked).message_id
    for turn in range(3):
        reply = answer(asked, f"r-{turn}", reply_to=f"inbox-{turn}")
        came_home = back().rewrite(undo(asked, reply).data, NOW)
        if turn == 0:
            assert fields(came_home).correlation_id == first_id
        else:
            assert fields(came_home).correlation_id == f"m-{turn}"

        onward = message(
            [f"m-{turn + 1}", None, fields(came_home).reply_to, None, "q", fields(came_home).message_id]
        )
        if not direct:
            restored = back().undo(token(came_home, "$answers"), onward, NOW)
            assert (restored.scope, restored.address) == ("core", f"inbox-{turn}")
            onward = restored.data
        asked = out().rewrite(onward, NOW)
        assert fields(asked).correlation_id == f"r-{turn}"
        assert fields(asked).message_id != seen_by_service


@pytest.mark.row("RA-2.5-6")
def test_a_last_word_without_reply_to_still_quotes_the_right_id() -> None:
    asked = out().rewrite(request(), NOW)
    home = undo(asked, answer(asked, "r-1"))
    last = out().rewrite(message(["m-2", None, "svc/echo", None, None, fields(home.data).message_id]), NOW)
    assert fields(last).correlation_id == "r-1"
    assert fields(last).reply_to is None


@pytest.mark.row("RA-2.5-6")
def test_a_service_that_asks_back_by_itself_quotes_the_clients_id() -> None:
    asked = out().rewrite(request("m-1"), NOW)
    question = message(["s-1", None, "clients/1", None, "inbox", fields(asked).message_id])
    assert fields(back().rewrite(question, NOW)).correlation_id == "m-1"


def test_ids_of_a_third_scope_pass_unchanged() -> None:
    third = Rewriter(RING, "third", "$r", TTL, destination="edge")
    known_in_edge = fields(third.rewrite(request("t-1"), NOW)).message_id
    assert fields(out().rewrite(request("m", known_in_edge), NOW)).correlation_id == known_in_edge


def test_an_echoed_request_comes_home_as_it_was() -> None:
    original = request(uuid.UUID(int=9), "c")
    asked = out().rewrite(original, NOW)
    home = undo(asked, asked).data
    assert without(home, 2, 4) == without(original, 2, 4)


@pytest.mark.row("RA-2.5-4")
def test_without_a_reply_to_nothing_is_rewritten() -> None:
    original = request(reply_to=None)
    assert out().rewrite(original, NOW) == original
    body = section(DATA, b"x")
    assert out().rewrite(body, NOW) == body


PREVIOUS = {
    "response-address-cookie": b"theirs",
    "response-link-target-address": "T0",
    "response-address-cookie-expiry": Timestamp(NOW + 5),
}


def annotated(properties: list[Any]) -> bytes:
    return message(properties, {**PREVIOUS, "x-opt-hop": 1})


@pytest.mark.row("RA-2.2-3", "RA-2.3-4", "RA-2.5-10")
@pytest.mark.parametrize("reply_to", ["q", None])
def test_annotations_are_stripped(reply_to: str | None) -> None:
    asked = out().rewrite(annotated(["m", None, "svc", None, reply_to]), NOW)
    assert delivery_annotations(asked, walk(asked)) == {"x-opt-hop": 1}
    alone = out().rewrite(message(["m", None, "svc", None, reply_to], PREVIOUS), NOW)
    assert walk(alone).da == walk(alone).ma
    if reply_to is None:
        assert alone == message(["m", None, "svc", None, None])


@pytest.mark.parametrize("reply_to", [None, "q"])
def test_only_an_answer_keeps_the_cookie_that_it_answers_with(reply_to: str | None) -> None:
    data = message(["m", None, "svc", None, reply_to], {**PREVIOUS, "address-cookie": b"c"})
    for is_answer, kept in ((False, {}), (True, {"address-cookie": b"c"})):
        asked = out().rewrite(data, NOW, answer=is_answer)
        assert delivery_annotations(asked, walk(asked)) == kept


@pytest.mark.row("RA-2.5-10", "RA-2.3-17")
def test_the_previous_gateways_cookie_is_restored_on_the_way_back() -> None:
    asked = out().rewrite(annotated(["m", None, "svc", None, "q"]), NOW)
    home = undo(asked, answer(asked, da={"address-cookie": b"bogus", "x-opt-y": 2}))
    assert (home.scope, home.address, home.target) == ("edge", "q", "T0")
    assert delivery_annotations(home.data, walk(home.data)) == {"address-cookie": b"theirs", "x-opt-y": 2}
    with pytest.raises(AmqpError, match=PRECONDITION_FAILED):
        out().undo(token(asked), answer(asked), NOW + 6)


@pytest.mark.row("RA-2.3-17")
def test_annotated_by_one_gateway_and_rewritten_by_the_next() -> None:
    first = Annotator(KeyRing("a", {"a": SigningSecret(b"a" * 32)}), "far", "T1", TTL)
    asked = out().rewrite(first.annotate(request("m-1"), NOW), NOW)
    home = undo(asked, answer(asked))
    assert home.target == "T1"
    last = first.restore(home.data, NOW)
    assert (last.scope, last.address) == ("far", "q")
    assert fields(last.data).correlation_id == "m-1"


def test_an_address_cookie_on_a_plain_rewritten_response_does_not_travel_on() -> None:
    asked = out().rewrite(request(), NOW)
    home = undo(asked, answer(asked, da={"address-cookie": b"bogus"}))
    assert walk(home.data).da == walk(home.data).ma


def test_a_response_of_nothing_but_a_body_gets_a_to() -> None:
    asked = out().rewrite(request(), NOW)
    home = undo(asked, section(DATA, b"x"))
    assert home.data == section(PROPERTIES, [None, None, "q"]) + section(DATA, b"x")


def test_a_large_properties_section() -> None:
    asked = out().rewrite(request(reply_to="q" * 500), NOW)
    home = undo(asked, answer(asked))
    assert fields(home.data).to == "q" * 500


def refusal(name: str, now_ms: int = NOW) -> AmqpError:
    with pytest.raises(AmqpError) as caught:
        out().undo(name, request(), now_ms)
    return caught.value


@pytest.mark.row("RA-2.5-9")
def test_forged_addresses_are_not_found_and_the_log_knows_why() -> None:
    good = Cookie("edge", "$replies", "q", NOW)
    tokens = {
        "not base64url": "garbage!",
        "wrong length": "AAAA",
        "wrong MAC": to_url(seal(RING, good)).decode(),
        "wrong scope or prefix": to_url(
            seal(RING, good._replace(scope="core", expiry_ms=0), REPLY_TO)
        ).decode(),
        "unknown key": to_url(seal(KeyRing("x", {"x": SigningSecret(b"k" * 32)}), good, REPLY_TO)).decode(),
    }
    reported = set()
    for reason, name in tokens.items():
        error = refusal(name)
        assert isinstance(error.__cause__, BadToken)
        assert error.__cause__.reason == reason
        reported.add((error.condition, error.description))
    assert reported == {(NOT_FOUND, "there is no such response address")}
    for name in ("", "ä", "\ud800", "=" * 9, "x" * 70_000):
        assert refusal(name).condition == NOT_FOUND


@pytest.mark.row("RA-2.5-9")
def test_an_expired_address() -> None:
    asked = out().rewrite(request(), NOW)
    assert out().resolve(token(asked), NOW + TTL).address == "q"
    assert refusal(token(asked), NOW + TTL + 1).condition == PRECONDITION_FAILED


@pytest.mark.parametrize(("index", "name"), [(0, "message-id"), (4, "reply-to"), (5, "correlation-id")])
def test_wrong_types_name_the_field(index: int, name: str) -> None:
    properties: list[Any] = ["m", None, "to", None, "q", "c"]
    properties[index] = Symbol("x")
    with pytest.raises(AmqpError) as caught:
        out().rewrite(message(properties), NOW)
    assert (caught.value.condition, caught.value.info) == (INVALID_FIELD, {"field": name})


@pytest.mark.parametrize(("index", "name"), [(0, "message-id"), (5, "correlation-id")])
def test_wrong_types_in_a_response(index: int, name: str) -> None:
    asked = out().rewrite(request(), NOW)
    properties: list[Any] = ["m", None, "to", None, "q", "c"]
    properties[index] = Symbol("x")
    with pytest.raises(AmqpError) as caught:
        undo(asked, message(properties))
    assert (caught.value.condition, caught.value.info) == (INVALID_FIELD, {"field": name})


@pytest.mark.parametrize("original", [request("m" * 5000), request(reply_to="q" * 5000)])
def test_what_cannot_be_carried_is_refused(original: bytes) -> None:
    with pytest.raises(AmqpError, match=RESOURCE_LIMIT_EXCEEDED):
        out().rewrite(original, NOW)


def test_rotation_ids_and_addresses_of_the_old_key_still_count() -> None:
    asked = out().rewrite(request(Ulong(1)), NOW)
    rotated = KeyRing("new", {"new": SigningSecret(b"n" * 32), "k": SigningSecret(b"k" * 32, until_ms=NOW)})
    home = undo(asked, answer(asked), Rewriter(rotated, "edge", "$replies", TTL, destination="core"))
    assert raw(home.data, 5) == encode(Ulong(1))
