"""What the gateway accepts, cell by cell of table 0.6: each peer gets what its listener offered, whatever it said.

The peer offers a capability, desires it, says both or nothing; the listener offers it or not. What the gateway
initiates is in `test_all_capabilities`. A listener desires response annotations where it offers them, and nothing else.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from gateway.amqp.codec.codec import Array, Symbol
from tests.support.amqp import frames
from tests.support.amqp.messages import bare, message, sections
from tests.support.amqp.peer import SENDER, Peer
from tests.support.gateway.crossing import Inbox, Outbox, hop_annotations
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.pairs import paired_with
from tests.support.gateway.process import ports

RELAY, RA, ES, PAIR = "ANONYMOUS-RELAY", "RESPONSE_ANNOTATIONS_V1_0", "AMQP_EVENT_STREAMS_V1_0", "LINK_PAIR_V1_0"
SAID: dict[str, tuple[str, ...]] = {
    "says nothing": (),
    "offers": ("offered_capabilities",),
    "desires": ("desired_capabilities",),
    "offers and desires": ("offered_capabilities", "desired_capabilities"),
}
POLICY = """
gateway: {{id: gw-cells, http: off, log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
kafka: {{main: {{bootstrap: embedded, topics: {{orders: 3}}}}}}
scopes:
  whole:
    listen: [{{bind: "127.0.0.1:{whole}"}}]
    addresses:
      - {{match: "events", kafka: main, topic: orders}}
      - {{match: "q/**", direct: balanced}}
      - {{match: echo, service: echo}}
      - {{match: "svc/{{name}}", relay: core, address: "services/{{name}}"}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    listen:
      - {{bind: "127.0.0.1:{offered}"}}
      - {{bind: "127.0.0.1:{trust}", annotations: trust}}
      - {{bind: "127.0.0.1:{never}", annotations: never}}
    addresses: [{{match: "services/**", direct: balanced}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  bare:
    listen: [{{bind: "127.0.0.1:{bare}"}}]
    anonymous_relay: false
    response_routing: false
    addresses:
      - {{match: "events", direct: balanced}}
      - {{match: "q/**", direct: balanced}}
      - {{match: echo, service: echo}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
_numbers = itertools.count()


class Place(NamedTuple):
    """The ports of the scope that offers everything, of the one that offers what cannot be left out, and of listeners
    that are named after their `annotations`."""

    whole: int
    bare: int
    offered: int
    trust: int
    never: int


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    place = Place(*ports(5))
    start_module_gateway(POLICY.format(**place._asdict()), env={"SCOPEGATE_TEST_KEY": "k" * 43})
    return place


def anonymous_relay(peer: Peer, port: int, offered: bool) -> None:
    inbox = Inbox(port, address := f"q/{next(_numbers)}")
    peer.attach("relay", SENDER)
    answered = peer.expect("attach")
    if not offered:
        assert answered.target is None
        peer.expect("detach", closed=True, error="amqp:not-implemented")
        return
    assert answered.target["address"] is None
    Outbox.adopt(peer).post(sent := message(to=address))
    assert inbox.take() == sent


def response_annotations(peer: Peer, port: int, offered: bool) -> None:
    inbox = Inbox(port, address := f"q/{next(_numbers)}")
    answered = peer.attach_sender("echo")
    assert (b"\xb3\x00\x00\x00\x1aresponse-address-supported" in answered.raw) is offered
    peer.until("flow", handle=0)
    peer.transfer(message(reply_to=address, da={"response-address-cookie": b"theirs"}))
    if offered:
        assert inbox.take().startswith(b"\x00\x53\x71\xc1\x19\x02\xa3\x0eaddress-cookie\xa0\x06theirs")
    else:
        peer.until("detach", closed=True, error="amqp:not-implemented")


def event_streams(peer: Peer, port: int, offered: bool) -> None:
    requested = {Symbol("event-streams-partition"): Symbol("1")}
    answered = peer.attach_receiver("events", properties=requested)
    assert answered.properties == (requested if offered else None)
    assert (b"\xa3\x17event-streams-partition\xa3\x011" in answered.raw) is offered


def link_pairs(peer: Peer, port: int, offered: bool) -> None:
    peer.attach("p", SENDER, target=frames.target("echo"), properties={Symbol("paired"): True})
    pair = paired_with(peer, "echo")
    pair.requests.post(message(b"ask", reply_to="$me"))
    assert sections(pair.responses.take())["data"] == b"ask"


USES: dict[str, Callable[[Peer, int, bool], None]] = {
    RELAY: anonymous_relay,
    RA: response_annotations,
    ES: event_streams,
    PAIR: link_pairs,
}


def opened(port: int, said: tuple[str, ...], capability: str) -> tuple[Peer, Any]:
    """A peer whose open says this of a capability, and the gateway's open."""
    peer = Peer(port)
    return peer, peer.start(**{name: [capability] for name in said})


@pytest.mark.row("X-9")
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
@pytest.mark.parametrize("scope", ["whole", "bare"])
@pytest.mark.parametrize("capability", USES)
def test_a_peer_gets_what_the_listener_offered(
    place: Place, capability: str, scope: str, said: tuple[str, ...]
) -> None:
    """No listener leaves link pairs out: for them there is no cell without an offer."""
    port: int = getattr(place, scope)
    offered = scope == "whole" or capability == PAIR
    peer, opening = opened(port, said, capability)
    assert (Symbol(capability) in opening.offered_capabilities.items) is offered
    assert opening.desired_capabilities == (Array("symbol", (Symbol(RA),)) if scope == "whole" else None)
    USES[capability](peer, port, offered)


@pytest.mark.row("X-9", "RA-2.1-4")
@pytest.mark.parametrize("capable", [True, False])
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
@pytest.mark.parametrize("annotations", ["offered", "trust", "never"])
def test_requests_are_annotated_where_container_and_target_say_so(
    place: Place, annotations: str, said: tuple[str, ...], capable: bool
) -> None:
    """`annotations: trust` is the deviation: the target alone decides, whatever the open of its container said."""
    name = f"cells-{next(_numbers)}"
    peer, opening = opened(getattr(place, annotations), said, RA)
    assert (opening.desired_capabilities is None) is (annotations == "never")
    assert RA in opening.offered_capabilities.items
    service = Inbox(peer, f"services/{name}", capable=capable)
    believed = annotations == "trust" or (annotations == "offered" and "offered_capabilities" in said)
    capable = capable and believed
    client = Outbox(place.whole, f"svc/{name}")
    client.credit()
    client.post(sent := message(b"ask", message_id="m", reply_to="q/home"))
    got = service.take()
    assert (bare(got) == bare(sent)) is capable
    reported = hop_annotations(got)
    assert reported.keys() == (
        {"response-address-cookie", "response-link-target-address", "response-address-cookie-expiry"}
        if capable
        else set()
    )
    reply_to = sections(got)["properties"]["reply_to"]
    assert reply_to == "q/home" if capable else reply_to.startswith("$replies.core/")
