"""The gateway as a responder: `service: echo` owes a request what any responder does (RA 2.3, 2.4)."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from gateway.amqp.codec.codec import Symbol, Timestamp, Ulong
from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, Peer
from tests.support.gateway.crossing import SUPPORTED, Inbox, Outbox, hop_annotations
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: gw-services, http: off, log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "far/{{how}}", relay: core, address: echo}}
      - {{match: "rewritten", relay: core, address: echo, replies: rewrite}}
      - {{match: "echo", service: echo}}
      - {{match: "work/*", relay: core}}
      - {{match: "q/**", direct: balanced}}
      - {{match: "private/**", direct: balanced}}
    access:
      - {{who: "*", may: send, on: ["echo", "far/**", "rewritten", "work/**", "q/**"]}}
      - {{who: "*", may: receive, on: "**"}}
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses: [{{match: echo, service: echo}}, {{match: "work/*", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
COOKIE = bytes(range(200))


class Place(NamedTuple):
    """The ports of the scopes."""

    edge: int
    core: int


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    place = Place(*ports(2))
    start_module_gateway(POLICY.format(**place._asdict()), env={"SCOPEGATE_TEST_KEY": "k" * 43})
    return place


@pytest.fixture
def sender(place: Place) -> Outbox:
    """A link to the service."""
    sender = Outbox(place.edge, "echo")
    assert list(sender.attach.target["capabilities"].items) == [SUPPORTED]
    return sender


ASKED: dict[str, tuple[dict[str, Any], str]] = {
    "cookie and link target": ({"response-address-cookie": COOKIE, "response-link-target-address": "q/t"}, "q/t"),
    "cookie": ({"response-address-cookie": COOKIE}, "q/r"),
    "link target": ({"response-link-target-address": "q/t"}, "q/t"),
    "neither": ({}, "q/r"),
}


@pytest.mark.row("RA-2-2", "RA-2.2-2", "RA-2.3-1", "RA-2.3-5", "RA-2.3-9", "RA-2.3-10", "RA-2.3-11", "RA-2.3-15")
@pytest.mark.row("RA-2.4-1", "RA-2.4-2", "RA-3-5", "RA-3-6")
@pytest.mark.parametrize("name", ASKED)
def test_the_response_goes_where_the_request_says(place: Place, sender: Outbox, name: str) -> None:
    annotations, where = ASKED[name]
    inboxes = {address: Inbox(place.edge, address) for address in ("q/r", "q/t")}
    expiry = {"response-address-cookie-expiry": Timestamp(4_000_000_000_000)} if annotations else {}
    delivery = sender.post(
        message(b"ask", message_id=Ulong(7), reply_to="q/r", app={"n": 1}, da={**annotations, **expiry} or None)
    )
    transfer = inboxes[where].transfer()
    got = bytes(transfer.payload)
    cookie = annotations.get("response-address-cookie")
    assert hop_annotations(got) == ({} if cookie is None else {"address-cookie": cookie})
    found = sections(got)
    assert found["properties"] == {"to": "q/r", "correlation_id": Ulong(7)}
    assert (found["data"], found["application_properties"]) == (b"ask", {"n": 1})
    inboxes[where].peer.disposition(transfer.delivery_id, "accepted")
    assert sender.outcome(delivery).matches("accepted")
    assert inboxes["q/r" if where == "q/t" else "q/t"].empty()


@pytest.mark.parametrize("outcome", ["accepted", "released", "rejected"])
def test_the_request_gets_the_outcome_of_its_response(place: Place, sender: Outbox, outcome: str) -> None:
    inbox = Inbox(place.edge, "q/outcome")
    state = frames.composite("rejected", error=frames.error("vendor:no")) if outcome == "rejected" else outcome
    delivery = sender.post(message(reply_to="q/outcome"))
    inbox.take(state)
    assert sender.outcome(delivery).name == outcome


REFUSED = {
    "no reply-to": (message(b"ask"), "amqp:precondition-failed"),
    "unknown": (message(reply_to="$temp/gone"), "amqp:not-found"),
    "not permitted": (message(reply_to="private/q"), "amqp:unauthorized-access"),
    "$me without a pair": (message(reply_to="$me"), "amqp:not-found"),
    "cookie of a wrong type": (message(reply_to="q/r", da={"response-address-cookie": "text"}), "amqp:invalid-field"),
    "forged": (message(reply_to="$replies.edge/forged"), "amqp:not-found"),
    "no cookie": (message(da={"response-link-target-address": "$replies.edge"}), "amqp:unauthorized-access"),
}


@pytest.mark.row("RA-2.3-11", "RA-2.3-2", "RA-2.3-8")
@pytest.mark.parametrize("name", REFUSED)
def test_a_request_that_cannot_be_answered_is_rejected(sender: Outbox, name: str) -> None:
    payload, condition = REFUSED[name]
    assert sender.send(payload).matches({"error": condition})


def test_a_service_is_sent_to_and_not_received_from(place: Place) -> None:
    with Peer(place.edge) as peer:
        peer.start()
        peer.attach("r", RECEIVER, source=frames.source("echo"))
        peer.expect("attach", source=None)
        peer.expect("detach", closed=True, error="amqp:not-allowed")


@pytest.mark.row("RA-2.3-5", "RA-2.4-1", "RA-3-6", "RA-2-3", "RA-2.5-7")
@pytest.mark.parametrize("address", ["far/annotated", "rewritten"])
@pytest.mark.parametrize("anonymous", [False, True])
def test_a_service_of_another_scope_answers_home(place: Place, address: str, anonymous: bool) -> None:
    inbox = Inbox(place.edge, "q/home")
    sender = Outbox(place.edge, None if anonymous else address)
    sender.credit()
    delivery = sender.post(message(b"ask", message_id="m-1", reply_to="q/home", to=address))
    got = inbox.take()
    assert sender.outcome(delivery).matches("accepted")
    assert hop_annotations(got) == {}
    assert sections(got)["data"] == b"ask"
    assert sections(got)["properties"]["correlation_id"] == "m-1"


@pytest.mark.row("RA-2.3-17")
def test_a_service_of_another_scope_answers_an_annotated_request(place: Place) -> None:
    """The request had come through a gateway before: its cookie and link target come back (A31)."""
    inbox, sender = Inbox(place.edge, "q/t"), Outbox(place.edge, "far/annotated")
    assert list(sender.attach.target["capabilities"].items) == [SUPPORTED]
    sender.credit()
    sender.post(message(reply_to="q/r", da=ASKED["cookie and link target"][0]))
    assert hop_annotations(inbox.take()) == {"address-cookie": COOKIE}


def test_a_settled_request_is_answered_settled(place: Place, sender: Outbox) -> None:
    inbox = Inbox(place.edge, "q/settled")
    sender.post(message(b"ask", reply_to="q/settled"), settled=True)
    transfer = inbox.transfer()
    assert transfer.settled
    assert sender.fails(message(reply_to="$me"), settled=True, delivery_tag=b"t").error["info"] == {
        Symbol("delivery-tag"): b"t"
    }


@pytest.mark.row("RA-1-1")
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize(
    ("address", "condition", "words"),
    [
        ("far/x", "amqp:not-found", "does not exist"),
        ("rewritten", "amqp:precondition-failed", "has refused this"),
    ],
)
def test_what_a_service_misses_is_not_told_in_another_scope(
    place: Place, address: str, condition: str, words: str, settled: bool
) -> None:
    """A client of the scope hears that the request has no reply-to, another one the condition alone."""
    sender = Outbox(place.edge, address)
    sender.credit()
    payload = message(b"ask")
    told = sender.fails(payload, settled=True).error if settled else sender.send(payload)["error"]
    assert (told["condition"], told["description"]) == (condition, f"the node behind this address {words}")
    near = Outbox(place.edge, "echo")
    near.credit()
    assert near.send(payload)["error"]["description"] == "the request has no reply-to"


@pytest.mark.row("RA-1-1", "RA-3-7")
def test_what_a_service_misses_in_a_response_is_not_told_to_the_responder(place: Place) -> None:
    """The requester has named a service as its reply-to: which one, and what it needs, is its scope's business."""
    worker, client = Inbox(place.core, "work/a", capable=True), Outbox(place.edge, "work/a")
    client.credit()
    client.post(message(b"ask", message_id="m", reply_to="echo"))
    cookie = hop_annotations(worker.take())["response-address-cookie"]
    responder = Outbox(place.core, "$replies.core")
    responder.credit()
    error = responder.send(message(b"yes", da={"address-cookie": cookie}))["error"]
    assert error["condition"] == "amqp:not-found"
    assert error["description"] == "the node behind this address does not exist"
