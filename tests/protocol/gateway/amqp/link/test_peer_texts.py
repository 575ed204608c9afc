"""The descriptions of the errors that a peer receives, as a table: what the client does, and what it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.amqp.codec.codec import Described, Symbol
from tests.protocol.conftest import Served
from tests.support.amqp.frames import framed, performative, source, target
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Peer

EVENTS = "events/orders"
FILTER = "amqp:event-streams-delivery-annotations-filter"

Action = Callable[[Peer], Any]


def attach(**fields: Any) -> Action:
    return lambda peer: peer.attach(**{"name": "x", "role": SENDER, "handle": 0, "target": target("chat/a"), **fields})


def frame(data: bytes, *, kind: int = 0) -> Action:
    return lambda peer: peer.send_raw(framed(data, kind=kind))


def in_turn(*actions: Action) -> Action:
    return lambda peer: [action(peer) for action in actions]


CLOSED: dict[str, tuple[Action, str]] = {
    "opens twice": (lambda peer: peer.open(), "the connection is already open"),
    "begins on a channel in use": (lambda peer: peer.begin(0), "channel 0 already has a session"),
    "attaches at a handle in use": (in_turn(attach(), attach(name="y")), "handle 0 already has a link"),
    "sends a SASL frame": (
        frame(performative("sasl_init", mechanism="ANONYMOUS"), kind=1),
        "unexpected frame type 1",
    ),
    "sends a frame with a bare list": (frame(b"\x45"), "a frame has no performative"),
    "sends an unknown performative": (frame(b"\x00\x53\x99\x45"), "unknown performative 0x99"),
    "transfers on a link on which it receives": (
        lambda peer: (peer.attach_receiver("chat/a"), peer.transfer(message(), 0)),
        "a transfer arrived on a link on which the peer is the receiver",
    ),
    "names a link with 5,000 characters": (
        attach(name="x" * 5000),
        "a link name has 5000 characters; the limit is 4096",
    ),
}


@pytest.mark.parametrize("action", CLOSED)
def test_the_text_of_a_close(served: Served, action: str) -> None:
    act, text = CLOSED[action]
    with served.peer() as peer:
        act(peer)
        end = peer.until("close")
        assert end.error["description"] == text


def reads(address: str, **fields: Any) -> Action:
    properties = fields.pop("properties", None)
    return attach(role=RECEIVER, target=target("here"), source=source(address, **fields), properties=properties)


def asks(**properties: Any) -> Action:
    return reads(EVENTS, properties={Symbol(name.replace("_", "-")): value for name, value in properties.items()})


def filters(descriptor: str, value: Any) -> Action:
    return reads("chat/a", filter={Symbol("f"): Described(Symbol(descriptor), value)})


REFUSED: dict[str, tuple[Action, str]] = {
    "transfers without credit": (
        lambda peer: (attach()(peer), peer.transfer(message(), 0)),
        "a transfer arrived without link credit",
    ),
    "asks for an unknown durability": (
        attach(target=target("chat/a", durable=9)),
        "unknown terminus-durability 9: use 0 (none), 1 (configuration) or 2 (unsettled-state)",
    ),
    "attaches to an address without a node": (attach(target=target("no/such")), "'no/such': no node has this address"),
    "receives from the address of responses": (
        reads("$replies.edge"),
        "this address accepts responses; nothing can be received from it",
    ),
    "names a partition by a number": (
        asks(event_streams_partition=5),
        "event-streams-partition must be a symbol",
    ),
    "names a partition that is not there": (
        asks(event_streams_partition=Symbol("7")),
        "there is no partition '7', only 0 to 0",
    ),
    "names a group without a name": (
        asks(event_streams_consumer_group=""),
        "event-streams-consumer-group must be a printable string of 1 to 255 characters",
    ),
    "has an epoch below zero": (
        asks(event_streams_consumer_group="g", event_streams_epoch=-1),
        "event-streams-epoch must be a long, 0 or greater",
    ),
    "filters by a text as a position": (
        filters(FILTER, "new"),
        "filter 'f': the value of the event-stream filter must be a map",
    ),
    "filters by an offset that is a number": (
        filters(FILTER, {Symbol("event-streams-offset"): 5}),
        "filter 'f': event-streams-offset must be a symbol",
    ),
    "filters by a timestamp that is a text": (
        filters(FILTER, {Symbol("event-streams-timestamp"): "now"}),
        "filter 'f': event-streams-timestamp must be a timestamp",
    ),
    "filters by another annotation of a log": (
        filters(FILTER, {Symbol("color"): "red"}),
        "filter 'f': 'color': only event-streams-offset and event-streams-timestamp are keys of this filter (ES 5.2.1)",
    ),
    "filters by too many tokens": (
        filters("amqp:sql-filter", "NOT " * 200 + "TRUE"),
        "filter 'f': the expression has too many tokens at column 801: the limit is 200",
    ),
    "filters by a type that a group has to know": (
        filters("amqp:any-filter", [Described(Symbol("vendor:x"), 1)]),
        "filter 'f': amqp:any-filter has a member of the unknown filter type 'vendor:x'",
    ),
}


@pytest.mark.parametrize("action", REFUSED)
def test_the_text_of_a_detach(served: Served, action: str) -> None:
    act, text = REFUSED[action]
    with served.peer() as peer:
        act(peer)
        assert peer.until("detach", closed=True).error["description"] == text


REJECTED: dict[str, tuple[str | None, dict[str, Any], str]] = {
    "sends to the anonymous terminus without a to": (None, {}, "a message to the anonymous terminus needs a `to`"),
    "sends another message-format": (
        "chat/a",
        {"message_format": 1},
        "the message-format is 0x1; the gateway accepts only messages of format 0",
    ),
}


@pytest.mark.parametrize("action", REJECTED)
def test_the_text_of_a_rejected_message(served: Served, action: str) -> None:
    address, fields, text = REJECTED[action]
    with served.peer() as receiver, served.peer() as peer:
        receiver.attach_receiver("chat/a")
        receiver.flow(0, link_credit=10)
        attach(target=target(address))(peer)
        peer.until("flow")
        peer.transfer(message(), 0, **fields)
        assert peer.until("disposition").state["error"]["description"] == text


def test_the_text_of_an_attach_to_a_temporary_node_of_another_connection(served: Served) -> None:
    with served.peer() as maker, served.peer() as peer:
        attach(target=target(None, dynamic=True))(maker)
        address = maker.until("attach").target["address"]
        attach(target=target(address))(peer)
        text = peer.until("detach", closed=True).error["description"]
        assert text == "only the connection that created this temporary node may send to it"
