"""Event logs that a relay shows in other scopes: everything about them is as if they were there (ES 3.1, 4.6.1, 6)."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.crossing import Inbox, connected
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

ES = "AMQP_EVENT_STREAMS_V1_0"
PARTITION = "event-streams-partition"
POLICY = """
gateway: {{id: gw-relayed-logs, http: "127.0.0.1:{http}", log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
kafka: {{main: {{bootstrap: embedded, topics: {{orders: 2, secret: 1}}}}}}
scopes:
  door:
    listen: [{{bind: "127.0.0.1:{door}"}}]
    addresses: [{{match: "all/**", relay: edge}}]
    access: [{{who: "*", may: receive, on: "**"}}]
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "far/{{topic}}", relay: core, address: "log/{{topic}}"}}
      - {{match: "all/**", relay: core, address: "log/orders"}}
      - {{match: "work/**", relay: core}}
    access:
      - {{who: "*", may: [send, receive], on: ["far/orders", "work/**"]}}
  beside:
    listen: [{{bind: "127.0.0.1:{beside}"}}]
    addresses: [{{match: "work/**", relay: core}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    addresses:
      - {{match: "log/{{topic}}", kafka: main}}
      - {{match: "work/**", direct: balanced}}
"""


class Place(NamedTuple):
    """The listeners of a gateway of which one scope only has an event log."""

    door: int
    edge: int
    beside: int


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways) -> Place:
    door, edge, beside, http = ports(4)
    policy = POLICY.format(door=door, edge=edge, beside=beside, http=http)
    start_module_gateway(policy, env={"SCOPEGATE_TEST_KEY": "k" * 43})
    return Place(door, edge, beside)


@pytest.mark.row("ES-3.1-1")
def test_a_scope_offers_event_streams_where_a_relay_leads_to_one(place: Place) -> None:
    offers = {}
    for name, port in place._asdict().items():
        peer = Peer(port)
        offers[name] = ES in peer.negotiate().offered_capabilities.items
    assert offers == {"door": True, "edge": True, "beside": False}


@pytest.mark.row("ES-6-1", "ES-6-2")
@pytest.mark.parametrize("way", ["door", "edge"])
def test_info_of_a_log_behind_relays_is_there(place: Place, way: str) -> None:
    port, address = (place.door, "all/of/it") if way == "door" else (place.edge, "far/orders")
    reported = sections(Inbox(port, f"{address}/$info", credit=1).take())["value"]
    assert reported["address"] == address
    assert [entry["partition"] for entry in reported["partitions"]] == ["0", "1"]


@pytest.mark.row("ES-6-2", "ES-6-10")
@pytest.mark.parametrize(
    ("address", "role", "condition"),
    [
        ("far/secret/$info", RECEIVER, "amqp:unauthorized-access"),
        ("far/secret", RECEIVER, "amqp:unauthorized-access"),
        ("far/orders/$info", SENDER, "amqp:not-allowed"),
        ("far/nothing/$info", RECEIVER, "amqp:unauthorized-access"),
        ("else/orders/$info", RECEIVER, "amqp:not-found"),
    ],
)
def test_info_needs_the_right_of_the_scope_where_it_is_asked_for(
    place: Place, address: str, role: bool, condition: str
) -> None:
    peer = connected(place.edge)
    ends = {"source": frames.source(address)} if role is RECEIVER else {"target": frames.target(address)}
    peer.attach("info", role, **ends)
    peer.until("attach")
    peer.expect("detach", closed=True, error=condition)


def test_an_address_of_another_kind_has_no_info(place: Place) -> None:
    """Behind a relay to a direct node it is an address like any other."""
    assert Inbox(place.edge, "work/a/$info").attach.source["address"] == "work/a/$info"


@pytest.mark.row("AT-2.2.1-3", "ES-4.6.1-1")
@pytest.mark.parametrize("way", ["edge", "beside"])
def test_a_wish_for_a_partition_at_the_null_target_is_granted_where_a_relay_leads_to_a_log(
    place: Place, way: str
) -> None:
    peer = connected(getattr(place, way))
    attach = peer.attach_sender(None, properties={Symbol(PARTITION): Symbol("1")})
    assert ((attach.properties or {}).get(PARTITION) == "1") is (way == "edge")
    if way == "edge":
        reader = Inbox(place.edge, "far/orders")
        peer.transfer(message(b"event", to="far/orders"))
        reported = sections(reader.take())["delivery_annotations"]
        assert reported["event-streams-source-partition"] == "1"
