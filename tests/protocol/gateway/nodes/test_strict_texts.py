"""The descriptions of errors under a policy that permits little: what the client does, and what it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gateway.amqp.codec.codec import Long, Symbol
from tests.support.amqp.frames import source, target
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports

POLICY = """
gateway: {{id: gw-strict, http: "127.0.0.1:{http}", state: memory}}
kafka: {{main: {{bootstrap: embedded, topics: {{log: 2}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}", sasl: [anonymous], limits: {{links: 4, max_frame_size: 256KiB}}}}]
    temporary: false
    strict_desired: true
    addresses:
      - {{match: "none/{{topic}}", kafka: main, topic: "{{topic}}", groups: none, partitions: [0]}}
      - {{match: "listed/{{topic}}", kafka: main, topic: "{{topic}}", groups: [billing], binding: client}}
      - {{match: "pend/{{topic}}", kafka: main, topic: "{{topic}}", surplus: pend, pending_limit: 1}}
      - {{match: "shared/{{topic}}", kafka: main, topic: "{{topic}}", group_mode: shared}}
      - {{match: "ce/{{topic}}", kafka: main, topic: "{{topic}}", mode: cloudevents}}
      - {{match: echo, service: echo}}
      - {{match: "chat/**", direct: balanced}}
    access: [{{who: "*", may: [send, receive, info], on: "**"}}]
"""
Action = Callable[[Peer], Any]


@pytest.fixture(scope="module")
def port(start_module_gateway: Gateways) -> int:
    edge, http = ports(2)
    start_module_gateway(POLICY.format(edge=edge, http=http))
    return edge


def sends(address: str | None, **fields: Any) -> Action:
    return lambda peer: peer.attach("x", SENDER, 0, target=target(address), **fields)


def reads(address: str | None, name: str = "x", handle: int = 0, **properties: Any) -> Action:
    given = {Symbol(key.replace("_", "-")): value for key, value in properties.items()}
    return lambda peer: peer.attach(name, RECEIVER, handle, source=source(address), properties=given)


def member(address: str, name: str, handle: int, partition: str | None = None, group: str = "billing") -> Action:
    """A link of a group, for the partition where one is named; the peer waits for what it is answered."""
    named = {} if partition is None else {"event_streams_partition": Symbol(partition)}

    def attach(peer: Peer) -> None:
        reads(address, name, handle, event_streams_consumer_group=group, **named)(peer)
        peer.until("attach", name=name)

    return attach


def in_turn(*actions: Action) -> Action:
    return lambda peer: [action(peer) for action in actions]


REFUSED: dict[str, tuple[Action, str]] = {
    "attaches to the null target without desiring it": (
        sends(None),
        "the anonymous terminus requires ANONYMOUS-RELAY in the desired-capabilities of the open",
    ),
    "asks for a temporary node": (
        lambda peer: peer.attach("x", SENDER, 0, target=target(None, dynamic=True)),
        "this scope does not allow dynamic sources and targets",
    ),
    "joins a group where there are none": (
        reads("none/log", event_streams_consumer_group="g"),
        "this node has no consumer groups",
    ),
    "joins a group that is not listed": (
        reads("listed/log", event_streams_consumer_group="g"),
        "there is no consumer group 'g', and groups are not created on use",
    ),
    "names a partition that is not permitted": (
        reads("none/log", event_streams_partition=Symbol("1")),
        "this node does not permit links bound to partition 1",
    ),
    "names no partition where it has to": (
        reads("listed/log"),
        "links of this node have to name their partition: event-streams-partition",
    ),
    "joins for a partition that has an owner": (
        in_turn(
            member("listed/log", "first", 0, "0"),
            reads("listed/log", event_streams_consumer_group="billing", event_streams_partition=Symbol("0"), handle=1),
        ),
        "the partition has an owner in this group; use a greater event-streams-epoch to take it over",
    ),
    "waits for a partition when another waits": (
        in_turn(
            member("pend/log", "first", 0, group="p"),
            member("pend/log", "second", 1, group="p"),
            reads("pend/log", "third", 2, event_streams_consumer_group="p"),
            reads("pend/log", "fourth", 3, event_streams_consumer_group="p"),
        ),
        "the limit of 1 waiting links for this group is reached",
    ),
    "joins with another group_mode": (
        in_turn(
            member("pend/log", "first", 0, "0", group="m"),
            reads("shared/log", "second", 1, event_streams_consumer_group="m"),
        ),
        "other links of this group have another group_mode: configure the same in every rule and gateway",
    ),
    "names a partition in a shared group": (
        reads("shared/log", event_streams_consumer_group="s", event_streams_partition=Symbol("0")),
        "links of a group share its partitions at this node (group_mode: shared): attach without "
        "event-streams-partition",
    ),
    "is displaced by a greater epoch": (
        in_turn(
            member("listed/log", "first", 0, "1"),
            lambda peer: reads(
                "listed/log",
                "second",
                1,
                event_streams_consumer_group="billing",
                event_streams_partition=Symbol("1"),
                event_streams_epoch=Long(7),
            )(peer),
        ),
        "a link with a greater epoch has taken the partition",
    ),
    "receives from a service": (reads("echo"), "this address accepts requests; responses go to their reply-to"),
    "reads $info as a sender": (sends("none/log/$info"), "'none/log/$info': $info can only be read"),
    "attaches a fifth link": (
        in_turn(*[reads("chat/a", f"link {number}", number) for number in range(5)]),
        "link limit of this connection (4) exceeded",
    ),
}


@pytest.mark.parametrize("action", REFUSED)
def test_the_text_of_a_detach(port: int, action: str) -> None:
    act, text = REFUSED[action]
    with Peer(port) as peer:
        peer.start()
        act(peer)
        assert peer.until("detach", closed=True).error["description"] == text


REJECTED: dict[str, tuple[str, bytes, str]] = {
    "asks a service without a reply-to": ("echo", message(), "the request has no reply-to"),
    "sends what is not a CloudEvent": (
        "ce/log",
        message(),
        "this event log accepts only CloudEvents, in binary or structured mode",
    ),
    "sends more values than a record has": (
        "pend/log",
        message(app={f"k{number}": number for number in range(4100)}),
        "at most 4096 values in annotations, properties and header fit an event log; put more in the body",
    ),
    "sends long delivery annotations": (
        "chat/a",
        message(da={"x": "y" * 70_000}),
        "delivery annotations may have at most 65536 bytes; put long values into the message itself",
    ),
}


@pytest.mark.parametrize("action", REJECTED)
def test_the_text_of_a_rejected_message(port: int, action: str) -> None:
    address, data, text = REJECTED[action]
    with Peer(port) as peer:
        peer.start()
        if address.startswith("chat/"):
            peer.attach_receiver(address, 1)
            peer.flow(1, link_credit=10)
        sends(address)(peer)
        peer.until("flow")
        peer.transfer(data, 0)
        assert peer.until("disposition").state["error"]["description"] == text
