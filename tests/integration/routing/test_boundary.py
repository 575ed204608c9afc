"""Requests and responses between two scopes, byte for byte (RA): annotated, rewritten, and both on one connection."""

from __future__ import annotations

import time
import uuid
from typing import Any, Final

import pytest
from proton import Message

from gateway.amqp.codec.codec import Timestamp, Ulong, encode
from tests.support.amqp import frames
from tests.support.amqp.messages import bare, fields, message, sections, split
from tests.support.amqp.peer import SENDER, Peer
from tests.support.amqp.proton_clients import Login, echo, echo_with_cookie, request, respond
from tests.support.gateway.crossing import (
    Inbox,
    Outbox,
    Place,
    answer,
    connected,
    cookie_of,
    hop_annotations,
    pair,
    start,
)
from tests.support.gateway.gateway import Gateways

TTL: Final = 300_000
"""Lifetime of a cookie in ms: `expiry` of the policy."""


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    return start(start_module_gateway)


def rich(reply_to: str | None, **more: Any) -> bytes:
    """Return a message with something in every section."""
    given: dict[str, Any] = {
        "message_id": "m-1",
        "user_id": b"someone",
        "to": "where/it/goes",
        "subject": "every section",
        "reply_to": reply_to,
        "correlation_id": Ulong(77),
        "content_type": "text/plain",
        "creation_time": 1_700_000_000_000,
        "group_id": "g",
        "group_sequence": 9,
        "reply_to_group_id": "rg",
    }
    return message(
        b"\x00body\xff",
        header=[True, None, None, None, None],
        ma={"x-opt-far": "kept"},
        app={"n": 1, "text": "ü", "id": uuid.UUID(int=5)},
        footer={"x-opt-sum": b"\x01\x02"},
        **(given | more),
    )


@pytest.mark.row("RA-1-2", "RA-2-1", "RA-2.3-2", "RA-2.3-6", "RA-2.3-12", "RA-2.3-13", "RA-3-2", "CORE-5")
def test_an_annotated_request_is_untouched_but_for_three_annotations(place: Place) -> None:
    service, client, _, reply_to = pair(place, capable=True)
    sent, before = rich(reply_to), int(time.time() * 1000)
    delivery = client.post(sent)
    got = service.take()
    after = int(time.time() * 1000)
    assert client.outcome(delivery).matches("accepted")
    assert {**split(got), "delivery_annotations": b""} == {**split(sent), "delivery_annotations": b""}
    added = hop_annotations(got)
    assert type(added.pop("response-address-cookie")) is bytes
    assert added.pop("response-link-target-address") == "$replies.core"
    raw = split(got)["delivery_annotations"]
    assert b"response-link-target-address\xa1\x0d$replies.core" in raw  # a string on the wire
    assert b"response-address-cookie-expiry\x83" in raw  # a timestamp on the wire
    expiry = added.pop("response-address-cookie-expiry")
    assert before + TTL <= expiry <= after + TTL + TTL // 64  # rounded up, so that cookies repeat
    assert added == {}


@pytest.mark.row("RA-2-3", "RA-2.3-15", "RA-2.4-3", "RA-2.4-5", "RA-3-4")
def test_every_response_with_the_cookie_comes_home_unchanged(place: Place) -> None:
    service, client, answers, reply_to = pair(place, capable=True)
    client.post(rich(reply_to))
    cookie = cookie_of(service.take())
    replies = Outbox(place.core, "$replies.core")
    for number in range(3):
        sent = answer(cookie, b"%d" % number, to="somewhere/else", correlation_id="m-1", ma={"x-opt-a": 1})
        delivery = replies.post(sent)
        got = answers.take()
        assert replies.outcome(delivery).matches("accepted")
        assert bare(got) == bare(sent)
        assert split(got)["message_annotations"] == split(sent)["message_annotations"]
        assert "delivery_annotations" not in split(got)


@pytest.mark.row("RA-2-1")
def test_a_request_without_a_reply_to_is_annotated_but_cannot_be_answered(place: Place) -> None:
    service, client, _, _ = pair(place, capable=True)
    client.post(message(b"news"))
    cookie = cookie_of(service.take())
    outcome = Outbox(place.core, "$replies.core").send(answer(cookie))
    assert outcome.matches({"error": "amqp:not-found"})


@pytest.mark.row("RA-2.2-3", "RA-2.3-4", "RA-2.5-1", "RA-2.5-2", "RA-2.5-3", "RA-2.5-4", "RA-2.5-10", "RA-3-3")
def test_a_rewritten_request_differs_in_two_fields_only(place: Place) -> None:
    service, client, _, reply_to = pair(place, capable=False)
    seen = set()
    for _ in range(2):
        sent = rich(reply_to)
        client.post(sent)
        got = service.take()
        assert {**split(got), "properties": b""} == {**split(sent), "properties": b""}
        old, new = fields(split(sent)["properties"]), fields(split(got)["properties"])
        changed = {name for name in old.keys() | new.keys() if old.get(name) != new.get(name)}
        assert changed == {"message_id", "reply_to"}
        assert sections(got)["properties"]["reply_to"].startswith("$replies.core/")
        seen.add(new["message_id"])
    assert len(seen) == 2


IDS = {
    "string": "m-1",
    "ulong": Ulong(1 << 40),
    "uuid": uuid.UUID(int=7),
    "binary": b"\x00\xff",
    "none": None,
}


@pytest.mark.row("RA-2.5-5", "RA-2.5-6", "RA-2.5-7", "RA-2.5-8")
@pytest.mark.parametrize("kind", IDS)
@pytest.mark.parametrize("way", ["direct", "anonymous"])
def test_a_response_to_a_rewritten_request_names_the_original(place: Place, kind: str, way: str) -> None:
    service, client, answers, reply_to = pair(place, capable=False)
    client.post(rich(reply_to, message_id=IDS[kind]))
    asked = sections(service.take())["properties"]
    replies = Outbox(place.core, asked["reply_to"] if way == "direct" else None)
    correlated = {"to": asked["reply_to"], "correlation_id": asked["message_id"], "message_id": IDS[kind]}
    sent = rich(None, **correlated)
    delivery = replies.post(sent)
    got = answers.take()
    assert replies.outcome(delivery).matches("accepted")
    assert {**split(got), "properties": b""} == {**split(sent), "properties": b""}
    old, new = fields(split(sent)["properties"]), fields(split(got)["properties"])
    assert new.pop("to") == encode(reply_to)
    assert new.pop("correlation_id", None) == (None if IDS[kind] is None else encode(IDS[kind]))
    assert (new.pop("message_id", None) == old.get("message_id")) is (IDS[kind] is None)
    assert new == {name: raw for name, raw in old.items() if name not in correlated}


@pytest.mark.row("RA-2.5-7")
def test_another_correlation_id_passes_unchanged(place: Place) -> None:
    service, client, answers, reply_to = pair(place, capable=False)
    client.post(rich(reply_to))
    asked = sections(service.take())["properties"]
    responder = Outbox(place.core, asked["reply_to"])
    responder.post(message(correlation_id=asked["correlation_id"]))
    assert sections(answers.take())["properties"]["correlation_id"] == 77


@pytest.mark.row("RA-2.5-6", "RA-2.5-8")
def test_a_dialogue_goes_on_over_three_turns(place: Place) -> None:
    """The client answers the response: the service only sees its own ids and addresses, never the client's."""
    service, client, answers, reply_to = pair(place, capable=False)
    onward = Inbox(place.core, "services/onward")
    client.post(message(b"1", message_id="first", reply_to=reply_to))
    asked = sections(service.take())["properties"]
    second = message(b"2", correlation_id=asked["message_id"], message_id="second", reply_to="services/onward")
    responder = Outbox(place.core, asked["reply_to"])
    responder.post(second)
    reported = sections(answers.take())["properties"]
    assert reported["correlation_id"] == "first"
    assert reported["message_id"] != "second"
    assert reported["reply_to"].startswith("$replies.edge/")
    third = message(b"3", correlation_id=reported["message_id"], message_id="third", reply_to=reply_to)
    asking = Outbox(place.edge, reported["reply_to"])
    asking.post(third)
    last = sections(onward.take())["properties"]
    assert last["correlation_id"] == "second"
    assert last["to"] == "services/onward"
    assert last["reply_to"].startswith("$replies.core/")


@pytest.mark.row("RA-2.2-5", "RA-3-1")
def test_both_ways_on_one_connection(place: Place) -> None:
    peer = connected(place.core)
    capable = Inbox(peer, "services/both-a", 0, capable=True)
    other = Inbox(peer, "services/both-b", 1)
    for name, service, annotated in (("both-a", capable, True), ("both-b", other, False)):
        client = Outbox(place.edge, f"svc/{name}")
        client.credit()
        sent = message(reply_to="q/both")
        client.post(sent)
        got = service.take()
        assert ("response-address-cookie" in hop_annotations(got)) is annotated
        assert (bare(got) == bare(sent)) is annotated


@pytest.mark.row("RA-1-1", "RA-1-3", "CORE-2")
def test_a_name_in_both_scopes_means_two_nodes(place: Place) -> None:
    service, client, _, reply_to = pair(place, capable=True)
    ours, theirs = Inbox(place.edge, "same"), Inbox(place.core, "same")
    client.post(message(reply_to="same"))
    responder = Outbox(place.core, "$replies.core")
    responder.post(answer(cookie_of(service.take()), to="same"), settled=True)
    assert sections(ours.take())["data"] == b"answer"
    assert theirs.empty()
    peer = connected(place.core)
    peer.attach("q", SENDER, target=frames.target(reply_to))
    peer.expect("attach", target=None)
    peer.expect("detach", closed=True, error="amqp:not-found")


@pytest.mark.row("RA-3-7")
def test_the_outcome_at_the_client_is_the_services(place: Place) -> None:
    service, client, answers, reply_to = pair(place, capable=True)
    client.post(message(reply_to=reply_to))
    cookie = cookie_of(service.take())
    replies = Outbox(place.core, "$replies.core")
    for outcome in ("released", "accepted", "rejected"):
        delivery = replies.post(answer(cookie))
        answers.take(outcome)
        assert replies.outcome(delivery).matches(outcome)


def test_the_capabilities_a_scope_has_are_offered_together(place: Place) -> None:
    for port in (place.edge, place.core):
        with Peer(port) as peer:
            assert {"ANONYMOUS-RELAY", "RESPONSE_ANNOTATIONS_V1_0"} <= set(peer.start().offered_capabilities.items)


@pytest.mark.parametrize("annotated", [True, False])
@pytest.mark.parametrize("ids", [False, True])
def test_a_proton_client_and_service_cannot_tell(place: Place, annotated: bool, ids: bool) -> None:
    name = f"proton-{annotated}-{ids}"
    answers = echo_with_cookie if annotated else echo
    service = respond(Login(place.core), f"services/{name}", answers, annotated=annotated).attached()
    asked = [Message(body=f"{n}", id=f"id-{n}" if ids else None) for n in range(20)]
    got = request(Login(place.edge), f"svc/{name}", asked)
    service.stop()
    assert [each.message.body for each in got] == [f"{n}" for n in range(20)]
    assert [each.message.correlation_id for each in got] == [each.id for each in asked]
    assert not any(each.message.instructions for each in got)


@pytest.mark.parametrize("capable", [True, False])
@pytest.mark.parametrize("policy", ["cookie", "rewrite", "plain"])
def test_what_the_policy_says_of_replies(place: Place, policy: str, capable: bool) -> None:
    service, client, _, reply_to = pair(place, policy, capable=capable)
    sent = rich(reply_to)
    if policy == "cookie" and not capable:
        assert client.send(sent).matches({"error": "amqp:not-implemented"})
        assert service.empty()
        return
    client.post(sent)
    got = service.take()
    assert ("response-address-cookie" in hop_annotations(got)) is (policy == "cookie")
    assert (bare(got) == bare(sent)) is (policy != "rewrite")
    assert (got == sent) is (policy == "plain")


@pytest.mark.row("RA-2.5-6")
def test_responses_come_home_after_a_restart_and_through_another_process(start_gateway: Gateways) -> None:
    place, other = start(start_gateway), start(start_gateway, "gw-other")
    tokens = [send_request(place, capable) for capable in (True, False)]
    place.gateway.stop()
    place.gateway.restart()
    for home in (place, other):
        answers = Inbox(home.edge, "q/home")
        for (cookie, reported), body in zip(tokens, (b"annotated", b"rewritten"), strict=True):
            replies = Outbox(home.core, reported["reply_to"] if cookie is None else "$replies.core")
            correlated = message(b"rewritten", correlation_id=reported["message_id"])
            replies.post(correlated if cookie is None else answer(cookie, body))
            got = sections(answers.take())
            assert got["data"] == body
            assert cookie is not None or got["properties"] == {"to": "q/home", "correlation_id": "before"}


def send_request(place: Place, capable: bool) -> tuple[bytes | None, dict[str, Any]]:
    """Send one request; return the cookie it arrived with, if any, and its properties."""
    service, client, _, _ = pair(place, capable=capable)
    client.post(message(message_id="before", reply_to="q/home"))
    got = service.take()
    return cookie_of(got) if capable else None, sections(got)["properties"]


@pytest.mark.row("RA-2.3-17", "RA-2.5-10")
@pytest.mark.parametrize("capable", [True, False])
def test_a_request_that_crossed_a_gateway_before_goes_home_through_it(place: Place, capable: bool) -> None:
    """Its cookie and link target are inside ours; our cookie expires with it; the response has the inner cookie."""
    service, client, _, reply_to = pair(place, capable=capable)
    before = Inbox(place.edge, f"{reply_to}/link-target")
    soon = Timestamp(int(time.time() * 1000) + 60_000)
    previous = {
        "response-address-cookie": b"the other gateway's",
        "response-link-target-address": f"{reply_to}/link-target",
        "response-address-cookie-expiry": soon,
        "x-opt-hop": 1,
    }
    client.post(message(reply_to="only/there", message_id="m-1", da=previous))
    got = service.take()
    reported, asked = hop_annotations(got), sections(got)["properties"]
    assert "x-opt-hop" not in reported
    if capable:
        assert reported["response-address-cookie"] != previous["response-address-cookie"]
        assert reported["response-link-target-address"] == "$replies.core"
        assert reported["response-address-cookie-expiry"] == soon
        responder = Outbox(place.core, "$replies.core")
        responder.post(answer(cookie_of(got), correlation_id="m-1"))
    else:
        assert reported == {}
        responder = Outbox(place.core, asked["reply_to"])
        responder.post(message(b"answer", correlation_id=asked["message_id"]))
    home = before.take()
    assert sections(home)["data"] == b"answer"
    assert hop_annotations(home) == {"address-cookie": b"the other gateway's"}
    assert sections(home)["properties"]["correlation_id"] == "m-1"
