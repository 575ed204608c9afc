"""Which capabilities an open and a target carry, and what becomes of messages that use more than was announced."""

from __future__ import annotations

import itertools
from typing import Any, NamedTuple

import pytest

from gateway.amqp.codec.codec import Array, Symbol
from tests.support.amqp import frames
from tests.support.amqp.messages import bare, message, sections
from tests.support.amqp.peer import SENDER, Peer
from tests.support.gateway.crossing import SUPPORTED, Inbox, Outbox, answer, connected, hop_annotations
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

RELAY, RA, ES, PAIR = "ANONYMOUS-RELAY", "RESPONSE_ANNOTATIONS_V1_0", "AMQP_EVENT_STREAMS_V1_0", "LINK_PAIR_V1_0"
FILTERS = {"AMQP_FILTEX_PROP_V1_0", "AMQP_FILTEX_SQL_V1_0"}
PARTITION = Symbol("event-streams-partition")
OFFERS = list(itertools.product((False, True), repeat=3))
"""Anonymous relay, response routing, event streams: off and on."""
SCOPE = """
  s{n}:
    listen: [{{bind: "127.0.0.1:{port}"}}]
    anonymous_relay: {relay}
    response_routing: {routing}
    addresses: [{kafka}{{match: "q/**", direct: balanced}}, {{match: echo, service: echo}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
POLICY = """
gateway: {{id: gw-capabilities, http: off, log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
kafka: {{main: {{bootstrap: embedded, topics: {{orders: 3}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "svc/**", relay: core}}
      - {{match: "plain/**", relay: core, address: "svc/plain", replies: none}}
      - {{match: "q/**", direct: balanced}}
      - {{match: "all/**", direct: multicast}}
      - {{match: "events", kafka: main, topic: orders}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    addresses: [{{match: "svc/**", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
ASKED = {"response-address-cookie": b"c", "response-link-target-address": "q/t"}


class Place(NamedTuple):
    """The ports of the listeners; `offers` by what each offers."""

    edge: int
    core: int
    offers: dict[tuple[bool, ...], int]


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    edge, core, *numbers = ports(2 + len(OFFERS))
    policy = POLICY.format(edge=edge, core=core)
    for n, (offer, port) in enumerate(zip(OFFERS, numbers, strict=True)):
        relay, routing = (str(on).lower() for on in offer[:2])
        kafka = '{match: "events", kafka: main, topic: orders}, ' if offer[2] else ""
        policy += SCOPE.format(n=n, port=port, relay=relay, routing=routing, kafka=kafka)
    start_module_gateway(policy, env={"SCOPEGATE_TEST_KEY": "k" * 43})
    return Place(edge, core, dict(zip(OFFERS, numbers, strict=True)))


def capabilities(attach: Any) -> list[str]:
    """The capabilities of the target in an attach."""
    given = attach.target["capabilities"]
    return [] if given is None else list(given.items)


def attached(port: int, address: str | None, **fields: Any) -> Any:
    """Attach a sender of a new connection; return the answer."""
    return Outbox(port, address, **fields).attach


# -- the open (0.6)


@pytest.mark.row("X-1", "X-9", "RA-2.1-1", "AT-2.3-2")
@pytest.mark.parametrize("desired", [[], [RELAY], [RA], [ES], [PAIR], [RELAY, RA, ES, PAIR, "other"]], ids="+".join)
@pytest.mark.parametrize("offer", OFFERS, ids=str)
def test_each_open_offers_what_its_scope_has_whatever_is_desired(
    place: Place, offer: tuple[bool, ...], desired: list[str]
) -> None:
    peer = Peer(place.offers[offer])
    requested = Array("symbol", tuple(Symbol(name) for name in desired)) if desired else None
    offered = peer.start(desired_capabilities=requested).offered_capabilities
    relay, routing, events = offer
    assert isinstance(offered, Array)
    assert offered.kind == "symbol"
    expected = (
        {PAIR} | FILTERS | ({RELAY} if relay else set()) | ({RA} if routing else set()) | ({ES} if events else set())
    )
    assert set(offered.items) == expected


@pytest.mark.row("X-9", "RA-2.1-2", "RA-3-5", "RA-2.3-3", "AT-2.3-2")
@pytest.mark.parametrize("offer", OFFERS, ids=str)
def test_what_is_not_offered_is_not_done(place: Place, offer: tuple[bool, ...]) -> None:
    port, (relay, routing, events) = place.offers[offer], offer
    here = Inbox(port, "q/here", capable=True)
    for address in ("echo", "q/here"):
        sender = Outbox(port, address)
        sender.credit()
        assert capabilities(sender.attach) == ([SUPPORTED] if routing else [])
        if not routing:
            assert sender.fails(message(da=ASKED)).error["condition"] == "amqp:not-implemented"
    assert here.empty()
    peer = connected(port)
    properties = {PARTITION: Symbol("1"), Symbol("bar"): 1}
    peer.attach("relay", SENDER, target=frames.target(capabilities=[SUPPORTED]), properties=properties)
    if relay:
        answered = peer.expect("attach")
        assert capabilities(answered) == ([SUPPORTED] if routing else [])
        assert answered.properties == ({PARTITION: Symbol("1")} if events else None)
    else:
        peer.expect("attach", target=None)
        peer.expect("detach", closed=True, error="amqp:not-implemented")


# -- the target (RA 2.2)


@pytest.mark.row("RA-2.2-4", "RA-2.2-5", "RA-3-5")
def test_a_target_announces_what_its_node_honours(place: Place) -> None:
    peer = connected(place.edge)
    found = {
        address: capabilities(Outbox(peer, address, handle).attach)
        for handle, address in enumerate(("svc/a", "plain/a", "q/nobody", "events", "$replies.edge"))
    }
    assert found == {
        "svc/a": [SUPPORTED],
        "plain/a": [],
        "q/nobody": [],
        "events": [],
        "$replies.edge": [SUPPORTED],
    }


@pytest.mark.row("RA-2.2-2", "RA-2.2-4")
@pytest.mark.parametrize("kind", ["q", "all"])
def test_a_direct_node_announces_what_all_its_receivers_did(place: Place, kind: str) -> None:
    address = f"{kind}/receivers"
    first = Inbox(place.edge, address, capable=True)
    assert capabilities(attached(place.edge, address)) == [SUPPORTED]
    second = Inbox(place.edge, address)
    assert capabilities(attached(place.edge, address)) == []
    second.peer.detach(0).until("detach")
    assert capabilities(attached(place.edge, address)) == [SUPPORTED]
    first.peer.detach(0).until("detach")
    assert capabilities(attached(place.edge, address)) == []


@pytest.mark.row("RA-2.2-2")
def test_a_receiver_that_announced_gets_the_annotations_as_they_are(place: Place) -> None:
    inbox = Inbox(place.edge, "q/as-is", capable=True)
    sender = Outbox(place.edge, "q/as-is")
    sender.credit()
    sent = message(reply_to="q/r", da=ASKED)
    sender.post(sent)
    assert inbox.take() == sent


@pytest.mark.row("CORE-1", part="tolerant mode")
@pytest.mark.row("RA-2.3-3")
@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize("address", ["q/unsupported", "plain/unsupported", "events", None])
def test_annotations_to_a_target_that_announced_nothing_end_the_link(
    place: Place, address: str | None, name: str, settled: bool
) -> None:
    inbox = Inbox(place.edge, "q/unsupported")
    far = Inbox(place.core, "svc/plain")
    sender = Outbox(place.edge, address)
    assert capabilities(sender.attach) == []
    sender.credit()
    payload = message(to="q/unsupported", reply_to="q/r", da={name: ASKED[name], "x-opt-a": 1})
    detach = sender.fails(payload, settled=settled, delivery_tag=b"\x00\x07")
    assert detach.error["condition"] == "amqp:not-implemented"
    assert detach.error["info"] == {Symbol("delivery-tag"): b"\x00\x07"}
    assert inbox.empty()
    assert far.empty()


@pytest.mark.row("RA-2.3-3")
def test_what_only_looks_like_annotations_passes(place: Place) -> None:
    """The names in the body, in message annotations, and other delivery annotations are nobody's business."""
    inbox, sender = Inbox(place.edge, "q/looks"), Outbox(place.edge, "q/looks")
    sender.credit()
    for fields in (
        {"da": {"response-address": 1, "x-opt-response-address-cookie": b"c"}},
        {"ma": {"x-opt-response-address-cookie": b"c"}},
        {"app": {"response-address-cookie": "c"}},
    ):
        sent = message(b"response-address-cookie", **fields)
        sender.post(sent)
        assert inbox.take() == message(b"response-address-cookie", **{**fields, "da": None})
    assert inbox.empty()


@pytest.mark.row("RA-2.2-3", "RA-2.3-4", "RA-2.5-10", "RA-2.3-17")
def test_annotated_requests_are_rewritten_for_a_receiver_that_came_later(place: Place) -> None:
    """What was announced stays true: the cookie and link target come back on the response (RA-2.2-3)."""
    first = Inbox(place.edge, "q/later", capable=True)
    sender = Outbox(place.edge, "q/later")
    sender.credit()
    first.peer.detach(0).until("detach")
    second, home = Inbox(place.edge, "q/later"), Inbox(place.edge, "q/t")
    sent = message(b"ask", message_id="m-1", reply_to="q/r", da=ASKED)
    sender.post(sent)
    got = second.take()
    assert hop_annotations(got) == {}
    asked = sections(got)["properties"]
    assert asked["reply_to"].startswith("$replies.edge/")
    responder = Outbox(place.edge, asked["reply_to"])
    responder.post(message(b"answer", correlation_id=asked["message_id"]))
    answered = home.take()
    assert hop_annotations(answered) == {"address-cookie": b"c"}
    assert sections(answered)["properties"]["correlation_id"] == "m-1"
    plain = message(b"nothing to annotate", message_id="m-2", reply_to="q/r")
    sender.post(plain)
    assert second.take() == plain


# -- the anonymous terminus (AT 2.2.1)


@pytest.fixture
def demanding(place: Place) -> Outbox:
    """An anonymous link that was announced both behaviours."""
    requested = frames.target(capabilities=[SUPPORTED, "foo-cap"])
    return Outbox(place.edge, None, target=requested, properties={PARTITION: Symbol("1"), Symbol("bar"): 1})


@pytest.mark.row("AT-2.2.1-1", "AT-2.2.1-3", "X-4")
def test_the_anonymous_terminus_echoes_what_some_destination_supports(demanding: Outbox) -> None:
    assert capabilities(demanding.attach) == [SUPPORTED]
    assert demanding.attach.properties == {PARTITION: Symbol("1")}


@pytest.mark.row("AT-2.2.1-4")
def test_a_destination_without_what_was_announced_is_an_error(place: Place) -> None:
    inbox = Inbox(place.edge, "q/lacks")
    sender = Outbox(place.edge, None, properties={PARTITION: Symbol("1")})
    outcome = sender.send(message(to="q/lacks"), delivery_tag=b"\x09")
    assert outcome.matches({"error": "amqp:not-implemented"})
    assert outcome["error"]["info"] == {Symbol("delivery-tag"): b"\x09"}
    assert inbox.empty()


@pytest.mark.row("AT-2.2.1-5")
@pytest.mark.parametrize("settled", [False, True])
def test_whoever_cannot_be_told_of_it_by_a_rejection_is_detached(place: Place, settled: bool) -> None:
    inbox = Inbox(place.edge, "q/lacks")
    source = frames.source(outcomes=None if settled else ["amqp:accepted:list"])
    sender = Outbox(place.edge, None, properties={PARTITION: Symbol("1")}, source=source)
    detach = sender.fails(message(to="q/lacks"), settled=settled, delivery_tag=b"\x09")
    assert detach.error["condition"] == "amqp:not-implemented"
    assert detach.error["info"] == {Symbol("delivery-tag"): b"\x09"}
    assert inbox.empty()


@pytest.mark.row("AT-2.2.1-6")
def test_a_destination_that_supports_it_does_as_a_direct_link(place: Place) -> None:
    there = Inbox(place.edge, "events", properties={PARTITION: Symbol("1")})
    assert there.attach.properties == {PARTITION: Symbol("1")}
    others = Inbox(place.edge, "events", properties={PARTITION: Symbol("0")})
    sender = Outbox(place.edge, None, properties={PARTITION: Symbol("1")})
    assert sender.send(message(b"here", to="events")).matches("accepted")
    assert sections(there.take())["data"] == b"here"
    assert others.empty()
    absent = Outbox(place.edge, None, properties={PARTITION: Symbol("9")})
    assert absent.send(message(to="events")).matches({"error": "amqp:not-found"})


@pytest.mark.row("X-2", "AT-2.2-1")
def test_event_stream_annotations_count_over_the_anonymous_terminus(place: Place) -> None:
    there = Inbox(place.edge, "events", properties={PARTITION: Symbol("2")})
    others = Inbox(place.edge, "events", properties={PARTITION: Symbol("0")})
    sender = Outbox(place.edge, None)
    sent = message(b"x", to="events", da={"event-streams-target-partition": Symbol("2")})
    assert sender.send(sent).matches("accepted")
    got = there.take()
    assert sections(got)["data"] == b"x"
    assert "event-streams-target-partition" not in hop_annotations(got)
    assert others.empty()


@pytest.mark.row("X-4", "AT-2.2.1-4", "AT-2.2.1-6")
def test_response_annotations_over_the_anonymous_terminus(place: Place) -> None:
    sender = Outbox(place.edge, None, target=frames.target(capabilities=[SUPPORTED]))
    service, home = Inbox(place.core, "svc/x", capable=True), Inbox(place.edge, "q/t")
    sent = message(to="svc/x", reply_to="q/r", da=ASKED)
    sender.post(sent)
    got = service.take()
    assert bare(got) == bare(sent)
    asked = hop_annotations(got)
    assert asked["response-link-target-address"] == "$replies.core"
    responder = Outbox(place.core, "$replies.core")
    responder.post(answer(asked["response-address-cookie"]))
    assert hop_annotations(home.take()) == {"address-cookie": b"c"}
    plain = Inbox(place.edge, "q/plain")
    assert sender.send(message(to="q/plain", da=ASKED)).matches({"error": "amqp:not-implemented"})
    assert plain.empty()
