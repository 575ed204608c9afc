"""Addresses and attaches that lead nowhere: refused with their condition, and the session lives on (2.6.3, 3.5)."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.amqp.codec.codec import Symbol
from tests.protocol.conftest import Served, Watch
from tests.support.amqp.frames import framed, source, target
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.process import resident

NOT_FOUND = "amqp:not-found"
NOWHERE = {
    "empty": "",
    "over 1024 characters": "chat/" + "x" * 1020,
    "15 kB": "chat/" + "x" * 15_000,
    "a control character": "chat/\x01",
    "a line break": "chat/a\nb",
    "NUL": "chat/a\0b",
    "only NUL": "\0",
    "dots before the root": "../chat/a",
    "only dots": "..",
    "escaped slash": "chat%2Fa",
    "escaped dots": "%2e%2e/chat/a",
    "wildcard one": "*",
    "wildcard many": "**",
    "wildcard of others": "#",
    "wildcard topic": "events/*",
    "a slash": "/",
    "leading slash": "/chat/a",
    "leading blank": " chat/a",
    "a URL": "amqp://127.0.0.1/chat/a",
    "management": "$management",
    "replies of another scope": "$replies.core",
    "replies of no scope": "$replies.x",
    "a token of another scope": "$replies.core/AAAA",
    "a guessed temporary node": "$temp/AAAAAAAAAAAAAAAAAAAAAA",
    "dots behind a temporary node": "$temp/../chat/a",
    "no temporary node": "$temp/",
    "a topic that is not there": "events/nothing",
    "a path behind a topic": "events/orders/../orders",
    "a pattern's capture": "events/{topic}",
}


def refused(peer: Peer, condition: str, role: bool, handle: int = 0, **termini: Any) -> None:
    """Attach and see attach without our terminus, then detach with the condition, on a session that goes on."""
    peer.attach("x", role, handle, **termini)
    peer.until("attach", name="x", **{"source" if role else "target": None})
    peer.expect("detach", closed=True, error=condition)
    peer.detach(handle)


@pytest.mark.row("CORE-2", "CORE-11")
@pytest.mark.parametrize("address", NOWHERE.values(), ids=NOWHERE)
def test_an_address_without_a_node_is_not_found(served: Served, watch: Watch, address: str) -> None:
    with served.peer() as peer:
        refused(peer, NOT_FOUND, SENDER, target=target(address))
        refused(peer, NOT_FOUND, RECEIVER, source=source(address))
        peer.attach_sender("chat/a", handle=1)
    watch.link_refused(NOT_FOUND)


@pytest.mark.parametrize("address", ["$replies.edge/AAAA", "$replies.edge/" + "A" * 700, "$replies.edge/../chat/a"])
def test_a_forged_reply_address_is_not_found(served: Served, watch: Watch, address: str) -> None:
    with served.peer() as peer:
        refused(peer, NOT_FOUND, SENDER, target=target(address))
        refused(peer, "amqp:not-allowed", RECEIVER, source=source(address))
    line = watch.logged("link refused")
    assert address.partition("/")[2] not in str(line), "the log shows the token"


@pytest.mark.parametrize("address", ["chat/answered", "svc/answered"])
def test_an_attach_is_answered_with_the_address_it_asked_for(served: Served, address: str) -> None:
    """Also behind a relay, whose node has an address of its own."""
    with served.peer() as peer:
        assert peer.attach_sender(address).target["address"] == address
        assert peer.attach_receiver(address, 1).source["address"] == address


def test_64_kilobytes_of_address_do_not_fit_a_frame_that_we_take(served: Served, watch: Watch) -> None:
    with served.peer() as peer:
        peer.attach("x", SENDER, target=target("x" * 65_536))
        peer.until("close", error="amqp:connection:framing-error")
    watch.bad_input("amqp:connection:framing-error")


def test_what_is_said_of_a_long_address_is_short(served: Served, watch: Watch) -> None:
    with served.peer() as peer:
        peer.attach("x", SENDER, target=target("y" * 15_000))
        peer.expect("attach")
        assert len(peer.expect("detach").error["description"]) < 200
    assert len(str(watch.logged("link refused"))) < 1500


@pytest.mark.parametrize("address", ["chat/*", "chat/**", "chat/../chat/a", "chat/%2e%2e/a", "chat//a", "chat/{x}"])
def test_inside_a_node_every_character_is_literal(served: Served, address: str) -> None:
    """A wildcard subscribes to nothing else, and dots climb nowhere: what is sent elsewhere does not come here."""
    with served.peer() as receiver, served.peer() as sender:
        receiver.attach_receiver(address)
        receiver.flow(0, link_credit=5)
        sender.attach_sender(None)
        sender.expect("flow")
        for to in ("chat/a", "chat/x/a", "chat/a/a"):
            sender.transfer(message(b"not here", to=to))
        sender.transfer(message(b"here", to=address))
        assert receiver.until("transfer").payload.endswith(b"here")


@pytest.mark.parametrize(
    ("condition", "role", "termini"),
    [
        pytest.param("amqp:invalid-field", SENDER, {"target": None}, id="no target"),
        pytest.param("amqp:invalid-field", RECEIVER, {"source": None}, id="no source"),
        pytest.param("amqp:invalid-field", RECEIVER, {"source": source(None)}, id="a source without address"),
    ],
)
def test_termini_that_lead_nowhere(
    served: Served, watch: Watch, condition: str, role: bool, termini: dict[str, Any]
) -> None:
    with served.peer() as peer:
        refused(peer, condition, role, **termini)
        peer.attach_sender("chat/a", handle=1)
    watch.link_refused(condition)


@pytest.mark.row("CORE-11", "AT-2.3-1")
def test_a_target_with_a_null_address_is_the_anonymous_terminus(served: Served) -> None:
    with served.peer() as peer:
        assert peer.attach_sender(None).target["address"] is None
        peer.expect("flow", link_credit=1000)


def test_a_dynamic_terminus_gets_an_address_and_its_end_ends_who_else_is_there(served: Served, watch: Watch) -> None:
    with served.peer() as peer, served.peer() as other:
        made = peer.attach_receiver(None, source=source(dynamic=True)).source
        assert made["address"].startswith("$temp/")
        assert made["dynamic"] is True
        assert made["dynamic_node_properties"]["lifetime-policy"].descriptor == 0x2B
        other.attach_sender(made["address"])
        peer.detach()
        other.expect("detach", closed=True, error="amqp:resource-deleted")
        other.detach()
        refused(other, NOT_FOUND, SENDER, handle=1, target=target(made["address"]))
    watch.link_ended("amqp:resource-deleted")


def test_an_address_given_with_dynamic_is_not_taken(served: Served) -> None:
    """3.5.3: the address of a dynamic source is ours to choose; a peer must not set it, nor get another's node."""
    with served.peer() as peer:
        peer.attach("x", RECEIVER, source=source("chat/bystanders", dynamic=True))
        assert peer.expect("attach").source["address"].startswith("$temp/")


def nested(depth: int) -> bytes:
    value = b"\x40"
    for _ in range(depth):
        value = b"\xd0" + (len(value) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + value
    return value


def test_properties_nested_without_end(served: Served, watch: Watch) -> None:
    pairs = b"\xa3\x01a" + nested(500)
    fields = b"\xa1\x01x\x43\x42" + b"\x40" * 10 + b"\xd1" + (len(pairs) + 4).to_bytes(4, "big") + b"\0\0\0\2" + pairs
    body = b"\x00\x53\x12\xd0" + (len(fields) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x0e" + fields
    with served.peer() as peer:
        peer.send_raw(framed(body))
        peer.until("close", error="amqp:decode-error")
    watch.bad_input("amqp:decode-error")


def test_thousands_of_links_beyond_the_limit_on_one_session(served: Served, watch: Watch) -> None:
    """200 are allowed: those live, each of the others is refused, and the connection goes on."""
    with served.peer() as peer:
        for handle in range(5_000):
            peer.attach(f"link-{handle}", SENDER, handle, target=target(f"chat/{handle}"))
            if handle >= 200:
                peer.detach(handle)
            if handle % 100 == 99:
                while (frame := peer.receive()) is not None and frame.fields.get("name") != f"link-{handle}":
                    assert frame.kind in ("attach", "detach"), frame
        with served.peer() as receiver:
            receiver.attach_receiver("chat/199")
            receiver.flow(0, link_credit=1)
            granted = peer.until("flow", link_credit=1)
            peer.transfer(message(b"alive"), granted.handle)
            assert receiver.until("transfer").payload == message(b"alive")
    watch.counted('scopegate_links_refused_total{condition="amqp:resource-limit-exceeded",scope="edge"}', 5_000 - 200)
    own = watch.logged("link refused", link="link-200")["connection"]
    lines = [line for line in served.gateway.log() if line.get("connection") == own]
    refused = [line for line in lines if line["event"] == "link refused"]
    assert [line["refused"] for line in refused] == [*range(1, 101), 128, 256, 512, 1024, 2048, 4096]


@pytest.mark.parametrize("address", ["chat/more", "no/such"])
def test_refused_links_that_are_never_detached(served: Served, watch: Watch, address: str) -> None:
    """As many as the limit of links are kept, beside those that live; a peer that leaves more loses its connection."""
    with served.peer() as peer:
        for handle in range(401):
            peer.attach(f"link-{handle}", SENDER, handle, target=target(address))
        close = peer.until("close", error="amqp:resource-limit-exceeded")
        assert "200 refused links" in close.error["description"]
        peer.expect_eof()
    watch.bad_input("amqp:resource-limit-exceeded")


NULLS = [None] * 12_000
FIXED = 'scopegate_held_bytes{kind="connections"}'


@pytest.mark.parametrize("where", ["open", "attach", "source"])
def test_many_values_in_a_frame_are_charged(served: Served, where: str) -> None:
    """Each null takes up to 145 bytes decoded: a thousand attaches of 60 KB could take 8.7 GB, charged as 240 MB."""
    before, many = served.gateway.metrics().get(FIXED, 0.0), 5
    grown = resident(served.gateway.process.pid)
    peers = list[Peer]()
    for number in range(many):
        peer = served.peer(**({"properties": {Symbol("x"): NULLS}} if where == "open" else {}))
        peers.append(peer)
        if where == "attach":
            peer.attach_receiver("chat/values", properties={Symbol("x"): NULLS})
        elif where == "source":
            nulls = source(f"chat/values-{number}", dynamic_node_properties={Symbol("x"): NULLS})
            peer.attach_receiver(None, source=nulls)
    held = served.gateway.wait_metric(FIXED, lambda held: held - before >= many * len(NULLS) * 150)
    assert resident(served.gateway.process.pid) - grown < held - before
    for peer in peers:
        peer.disconnect()
    served.gateway.wait_metric(FIXED, lambda held: held <= before)
