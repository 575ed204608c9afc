"""Link pairs and `$me`: the response comes on the other link of the pair, whatever lies between (CORE-10)."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.messages import bare, message, sections
from tests.support.amqp.peer import RECEIVER, SENDER
from tests.support.gateway.crossing import SUPPORTED, Inbox, Outbox, answer, connected, cookie_of, hop_annotations
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.pairs import PAIRED, Paired, Responses, attach
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: gw-pairs, http: off, log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    temporary: false
    addresses:
      - {{match: "svc/**", relay: core}}
      - {{match: "far", relay: core, address: echo}}
      - {{match: "echo", service: echo}}
      - {{match: "**", direct: balanced}}
    access: [{{who: "*", may: [send, receive], on: ["svc/**", "far", "echo", "q/**"]}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses: [{{match: "svc/**", direct: balanced}}, {{match: echo, service: echo}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""


class Place(NamedTuple):
    """The ports of the scopes."""

    edge: int
    core: int


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    place = Place(*ports(2))
    start_module_gateway(POLICY.format(**place._asdict()), env={"SCOPEGATE_TEST_KEY": "k" * 43})
    return place


def paired(port: int, address: str | None, *, first: bool = SENDER) -> Paired:
    """Attach a pair, the halves in either order."""
    peer = connected(port)
    answers = {half: attach(peer, half, address) for half in (first, not first)}
    assert [answer.properties for answer in answers.values()] == [PAIRED, PAIRED]
    peer.flow(1, link_credit=100, delivery_count=0)
    return Paired(Outbox.adopt(peer), Responses(peer, answers[RECEIVER].handle))


@pytest.mark.row("CORE-10", "RA-2.3-7")
@pytest.mark.parametrize("first", [SENDER, RECEIVER], ids=["sender first", "receiver first"])
@pytest.mark.parametrize("address", ["echo", None])
def test_a_local_service_answers_over_the_pair(place: Place, address: str | None, first: bool) -> None:
    pair = paired(place.edge, address, first=first)
    annotations = {"response-address-cookie": b"c", "response-link-target-address": "q/t"}
    request = message(b"ask", message_id="m", reply_to="$me", to="echo", da=None if address is None else annotations)
    delivery = pair.requests.post(request)
    got = pair.responses.take()
    assert pair.requests.outcome(delivery).matches("accepted")
    assert hop_annotations(got) == ({} if address is None else {"address-cookie": b"c"})
    assert sections(got)["properties"] == {"to": "$me", "correlation_id": "m"}


@pytest.mark.row("CORE-10")
def test_the_half_for_responses_takes_nothing_else(place: Place) -> None:
    pair = paired(place.edge, "q/work")
    worker = Inbox(place.edge, "q/work")
    pair.requests.credit()
    delivery = pair.requests.post(message(b"work"))
    assert sections(worker.take())["data"] == b"work"
    assert pair.requests.outcome(delivery).matches("accepted")
    pair.requests.peer.close()
    assert pair.requests.peer.expect("close").error is None  # nothing had come on the other half


@pytest.mark.row("CORE-10", "RA-2.3-8")
@pytest.mark.parametrize("address", ["svc/a", "q/a"])
def test_an_annotated_request_is_answered_over_the_pair(place: Place, address: str) -> None:
    """Across the boundary, and to a responder of the same scope: its cookie names the paired link."""
    port = place.core if address.startswith("svc") else place.edge
    scope = "core" if address.startswith("svc") else "edge"
    service, pair = Inbox(port, address, capable=True), paired(place.edge, address)
    sent = message(b"ask", reply_to="$me")
    pair.requests.post(sent)
    got = service.take()
    assert bare(got) == bare(sent)
    assert hop_annotations(got)["response-link-target-address"] == f"$replies.{scope}"
    replies = Outbox(port, f"$replies.{scope}")
    for number in range(3):
        delivery = replies.post(answer(cookie_of(got), b"%d" % number))
        back = pair.responses.take()
        assert (sections(back)["data"], hop_annotations(back)) == (b"%d" % number, {})
        assert replies.outcome(delivery).matches("accepted")


@pytest.mark.row("RA-2.3-8")
@pytest.mark.parametrize("address", ["svc/b", "q/b"])
def test_a_rewritten_request_is_answered_over_the_pair(place: Place, address: str) -> None:
    port = place.core if address.startswith("svc") else place.edge
    service, pair = Inbox(port, address), paired(place.edge, address)
    pair.requests.post(message(b"ask", message_id="m", reply_to="$me"))
    asked = sections(service.take())["properties"]
    assert asked["reply_to"].startswith("$replies.")
    responder = Outbox(port, asked["reply_to"])
    responder.post(message(b"answer", correlation_id=asked["message_id"]))
    back = sections(pair.responses.take())
    assert (back["data"], back["properties"]["correlation_id"]) == (b"answer", "m")


@pytest.mark.row("RA-2.3-8", "RA-3-6")
def test_a_service_beyond_the_boundary_answers_over_the_pair(place: Place) -> None:
    pair = paired(place.edge, "far")
    pair.requests.post(message(b"ask", message_id="m", reply_to="$me"))
    assert sections(pair.responses.take())["data"] == b"ask"


@pytest.mark.row("RA-2.3-8")
@pytest.mark.parametrize("capable", [True, False])
def test_a_response_for_a_link_that_is_gone_is_not_found(place: Place, capable: bool) -> None:
    service, pair = Inbox(place.core, "svc/gone", capable=capable), paired(place.edge, "svc/gone")
    pair.requests.post(message(message_id="m", reply_to="$me"))
    got = service.take()
    pair.responses.detach()
    if capable:
        outcome = Outbox(place.core, "$replies.core").send(answer(cookie_of(got)))
    else:
        outcome = Outbox(place.core, sections(got)["properties"]["reply_to"]).send(message())
    assert outcome.matches({"error": "amqp:not-found"})
    assert pair.requests.send(message(reply_to="$me")).matches({"error": "amqp:not-found"})
    attach(pair.responses.peer, RECEIVER, "svc/gone")
    pair.requests.post(message(reply_to="$me"))
    service.take()


@pytest.mark.row("CORE-10", "RA-2.3-8")
@pytest.mark.parametrize("capable", [True, False])
@pytest.mark.parametrize("lone", [True, False])
def test_without_a_pair_me_is_nowhere(place: Place, lone: bool, capable: bool) -> None:
    """A link that is no half, and a half without the other."""
    service = Inbox(place.core, "svc/lone", capable=capable)
    sender = Outbox(place.edge, "svc/lone", properties=PAIRED if lone else None)
    sender.credit()
    assert sender.send(message(reply_to="$me")).matches({"error": "amqp:not-found"})
    assert service.empty()


def test_halves_of_other_sessions_names_and_connections_are_no_pair(place: Place) -> None:
    peer = connected(place.edge)
    attach(peer, SENDER, "echo")
    other = connected(place.edge)
    attach(other, RECEIVER, "echo")
    peer.attach("q", RECEIVER, 1, properties=PAIRED, source=frames.source("echo"))
    peer.until("attach")
    assert Outbox.adopt(peer).send(message(reply_to="$me")).matches({"error": "amqp:not-found"})


@pytest.mark.row("CORE-10")
@pytest.mark.parametrize("value", [False, None, 1, "true"])
def test_what_does_not_ask_for_a_pair_gets_no_echo(place: Place, value: object) -> None:
    properties = None if value is None else {Symbol("paired"): value}
    assert not Inbox(place.edge, "q/plain", properties=properties).attach.properties
    assert not Outbox(place.edge, "q/plain", properties=properties).attach.properties


@pytest.mark.parametrize(("address", "condition"), [("private", "amqp:unauthorized-access"), ("", "amqp:not-found")])
def test_a_half_for_responses_needs_what_its_requests_need(place: Place, address: str, condition: str) -> None:
    peer = connected(place.edge)
    peer.attach("p", RECEIVER, properties=PAIRED, source=frames.source(address))
    peer.expect("attach", source=None)
    peer.expect("detach", closed=True, error=condition)


def test_pairs_leave_nothing_behind(place: Place) -> None:
    """Many pairs come and go at one service: each answer finds its own."""
    service = Inbox(place.core, "svc/many", capable=True)
    for number in range(20):
        pair = paired(place.edge, "svc/many")
        pair.requests.post(message(b"%d" % number, reply_to="$me"))
        responder = Outbox(place.core, "$replies.core")
        responder.post(answer(cookie_of(service.take()), b"%d" % number))
        assert sections(pair.responses.take())["data"] == b"%d" % number
        pair.requests.peer.close()


def responding(port: int, address: str, target: str | None) -> Paired:
    """A responder's pair: requests come on one half, answers leave on the other, which is attached first."""
    peer = connected(port)
    assert attach(peer, SENDER, target).properties == PAIRED
    source, here = frames.source(address), frames.target("here", capabilities=[SUPPORTED])
    peer.attach("p", RECEIVER, 1, properties=PAIRED, source=source, target=here)
    answer = peer.until("attach", name="p", role=SENDER)
    assert answer.properties == PAIRED
    peer.flow(1, link_credit=100, delivery_count=0)
    return Paired(Outbox.adopt(peer), Responses(peer, answer.handle))


@pytest.mark.row("RA-2.3-8")
@pytest.mark.parametrize("target", ["$replies.core", None])
def test_a_responder_with_a_pair_gets_requests_and_answers_over_it(place: Place, target: str | None) -> None:
    responder = responding(place.core, "svc/pair", target)
    requester = paired(place.edge, "svc/pair")
    requester.requests.post(message(b"ask", reply_to="$me"))
    got = responder.responses.take()
    assert (sections(got)["data"], sections(got)["properties"]["reply_to"]) == (b"ask", "$me")
    delivery = responder.requests.post(answer(cookie_of(got), b"yes", to="$me"))
    back = requester.responses.take()
    assert (sections(back)["data"], hop_annotations(back)) == (b"yes", {})
    assert responder.requests.outcome(delivery).matches("accepted")


@pytest.mark.row("RA-2.3-8")
def test_the_responses_of_a_responders_pair_need_a_cookie(place: Place) -> None:
    responder = responding(place.core, "svc/bare", None)
    assert responder.requests.send(message(to="$me")).matches({"error": "amqp:unauthorized-access"})


def test_a_responders_pair_needs_the_right_to_receive(place: Place) -> None:
    peer = connected(place.edge)
    attach(peer, SENDER, "$replies.edge")
    peer.attach("p", RECEIVER, 1, properties=PAIRED, source=frames.source("private"))
    peer.until("detach", closed=True, error="amqp:unauthorized-access")


def test_a_responders_pair_says_so_with_its_first_half(place: Place) -> None:
    """The receiving half alone looks like a requester's; nobody waits for requests in vain."""
    peer = connected(place.core)
    attach(peer, RECEIVER, "svc/late")
    peer.attach("p", SENDER, 0, properties=PAIRED, target=frames.target("$replies.core"))
    detach = peer.until("detach", closed=True, error="amqp:not-allowed")
    assert "has to attach the sending half of its link pair" in detach.error["description"]
