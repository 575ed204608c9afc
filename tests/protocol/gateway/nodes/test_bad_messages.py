"""Messages that are no messages: passed on where nobody looks inside, refused where somebody must (part 3, 3.2)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from gateway.amqp.codec.codec import Uint
from tests.protocol.conftest import Served, Watch
from tests.support.amqp.messages import message, section
from tests.support.amqp.peer import Peer

DATA = section(0x75, b"x")
DECODE, INVALID, PRECONDITION = "amqp:decode-error", "amqp:invalid-field", "amqp:precondition-failed"


def nested(depth: int) -> bytes:
    value = b"\x40"
    for _ in range(depth):
        value = b"\xd0" + struct.pack(">II", len(value) + 4, 1) + value
    return value


MALFORMED = {
    "no section": b"\xff\xff\xff",
    "one byte": b"\x00",
    "cut off": message(b"body")[:-1],
    "longer than it says": message(b"body") + b"\x00",
    "a value without descriptor": b"\xa1\x01x",
    "no such section": section(0x99, []) + DATA,
    "properties after the body": DATA + section(0x73, []),
    "properties twice": section(0x73, []) * 2 + DATA,
    "two values": section(0x77, 1) * 2,
    "value and data": section(0x77, 1) + DATA,
    "properties that are a map": section(0x73, {}) + DATA,
    "annotations that are a list": section(0x71, []) + DATA,
    "data that is a string": section(0x75, "text"),
    "more items than bytes": b"\x00\x53\x73\xd0\x00\x00\x00\x04\xff\xff\xff\xff" + DATA,
}
ANNOTATED = message(b"x", da={"foo-bar": 1}, ma={"baz": 2})
UNUSUAL = {
    "nothing at all": b"",
    "properties alone": message(None, message_id="id"),
    "1000 data sections": DATA * 1000,
    "1000 sequences": section(0x76, [1]) * 1000,
    "a value nested 500 deep": b"\x00\x53\x77" + nested(500),
    "annotations with string keys": section(0x72, {"a": 1}) + DATA,
    "an unknown annotation": ANNOTATED,
}


def passed(payload: bytes) -> bytes:
    """What is left of a message behind this hop: delivery annotations end here."""
    return message(b"x", ma={"baz": 2}) if payload == ANNOTATED else payload


@pytest.fixture
def core(served: Served) -> Iterator[Peer]:
    """A service in scope `core` that gets what is relayed to it."""
    with Peer(served.core) as peer:
        peer.start()
        peer.attach_receiver("services/a")
        peer.flow(0, link_credit=10)
        yield peer


def sent(peer: Peer, address: str | None, payload: bytes) -> None:
    peer.attach_sender(address)
    peer.until("flow")
    peer.transfer(payload)


@pytest.mark.row("CORE-5")
@pytest.mark.parametrize("payload", [*MALFORMED.values(), *UNUSUAL.values()], ids=[*MALFORMED, *UNUSUAL])
def test_a_direct_node_passes_bytes(served: Served, payload: bytes) -> None:
    sender, receiver = served.pair("chat/opaque")
    with sender, receiver:
        sender.transfer(payload)
        transfer = receiver.expect("transfer")
        assert transfer.payload == passed(payload)
        receiver.disposition(transfer.delivery_id, "accepted")
        sender.expect("disposition", state="accepted")


@pytest.mark.parametrize("payload", MALFORMED.values(), ids=MALFORMED)
def test_a_relay_into_another_scope_rejects(served: Served, watch: Watch, core: Peer, payload: bytes) -> None:
    with served.peer() as sender:
        sent(sender, "svc/a", payload)
        rejected = sender.until("disposition", settled=True, state="rejected")
        assert rejected.state["error"]["condition"] == DECODE
        sender.transfer(message(b"next"))
        assert core.until("transfer").payload == message(b"next")
    watch.logged("message refused", condition=DECODE)
    watch.counted(f'scopegate_messages_refused_total{{condition="{DECODE}",scope="edge"}}')


@pytest.mark.row("CORE-1", part="tolerant mode")
@pytest.mark.row("CORE-5")
@pytest.mark.parametrize("payload", UNUSUAL.values(), ids=UNUSUAL)
def test_a_relay_passes_what_is_only_unusual(served: Served, core: Peer, payload: bytes) -> None:
    with served.peer() as sender:
        sent(sender, "svc/a", payload)
        assert core.until("transfer").payload == passed(payload)


@pytest.mark.parametrize("payload", MALFORMED.values(), ids=MALFORMED)
def test_the_anonymous_terminus_rejects(served: Served, watch: Watch, payload: bytes) -> None:
    with served.peer() as sender:
        sent(sender, None, payload)
        rejected = sender.until("disposition", settled=True, state="rejected")
        assert rejected.state["error"]["condition"] == DECODE
    watch.logged("message refused", condition=DECODE)


@pytest.mark.parametrize(
    ("condition", "payload"),
    [
        pytest.param(PRECONDITION, b"", id="nothing"),
        pytest.param(PRECONDITION, message(b"x"), id="no properties"),
        pytest.param(PRECONDITION, message(b"x", message_id="id"), id="no to"),
        pytest.param(INVALID, message(b"x", to=Uint(5)), id="a number"),
        pytest.param("amqp:not-found", message(b"x", to=""), id="empty"),
        pytest.param("amqp:not-found", message(b"x", to="nowhere"), id="nowhere"),
        pytest.param("amqp:not-found", message(b"x", to="chat/a\0b"), id="NUL"),
        pytest.param("amqp:not-found", message(b"x", to="x" * 10_000), id="10 kB"),
        pytest.param("amqp:not-found", message(b"x", to="$temp/AAAA"), id="a guessed temporary node"),
        pytest.param("amqp:not-found", message(b"x", to="$replies.core"), id="replies of another scope"),
    ],
)
def test_the_anonymous_terminus_says_what_is_wrong_with_to(
    served: Served, watch: Watch, condition: str, payload: bytes
) -> None:
    with served.peer() as sender:
        sent(sender, None, payload)
        rejected = sender.until("disposition", settled=True, state="rejected")
        assert rejected.state["error"]["condition"] == condition
        assert len(rejected.state["error"]["description"]) < 300
    watch.counted(f'scopegate_messages_refused_total{{condition="{condition}",scope="edge"}}')


@pytest.mark.parametrize("address", [None, "svc/a", "events/orders"], ids=["anonymous", "relay", "kafka"])
def test_a_settled_message_that_is_malformed_ends_its_link(
    served: Served, watch: Watch, core: Peer, address: str | None
) -> None:
    with served.peer() as sender:
        sender.attach_sender(address)
        sender.until("flow")
        sender.transfer(b"\xff", settled=True)
        detach = sender.until("detach", closed=True, error=DECODE)
        assert detach.error["info"]["delivery-tag"] == b"0"
        sender.detach()
        sender.attach_sender("chat/a", handle=1)
    watch.link_ended(DECODE)


@pytest.mark.parametrize("payload", MALFORMED.values(), ids=MALFORMED)
def test_a_topic_rejects(served: Served, watch: Watch, payload: bytes) -> None:
    with served.peer() as sender:
        sent(sender, "events/orders", payload)
        rejected = sender.until("disposition", settled=True, state="rejected")
        assert rejected.state["error"]["condition"] == DECODE
        sender.transfer(message(b"next"))
        sender.until("disposition", state="accepted")
    watch.logged("message refused", condition=DECODE)


@pytest.mark.row("CORE-1", part="tolerant mode")
@pytest.mark.parametrize("payload", UNUSUAL.values(), ids=UNUSUAL)
def test_a_topic_takes_what_is_only_unusual_and_gives_it_back(served: Served, payload: bytes) -> None:
    with served.peer() as sender, served.peer() as receiver:
        receiver.attach_receiver("events/orders")
        receiver.flow(0, link_credit=1)
        sent(sender, "events/orders", payload)
        sender.until("disposition", settled=True, state="accepted")
        assert receiver.until("transfer").payload.endswith(payload[-6:] if payload else b"")
