"""Delivery annotations beyond their bound: every node rejects the message, before anybody reads them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.amqp.message.bounds import ANNOTATIONS
from tests.protocol.conftest import Served, Watch
from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer

LIMIT = "amqp:resource-limit-exceeded"
PIECE = 15_000


@pytest.fixture
def readers(served: Served) -> Iterator[dict[str, Peer]]:
    made = {}
    for scope, address in (("edge", "chat/m"), ("edge", "news/m"), ("core", "services/m")):
        peer = made[address] = Peer(served.edge if scope == "edge" else served.core)
        peer.start()
        peer.attach_receiver(address)
        peer.flow(0, link_credit=10)
    yield made
    for peer in made.values():
        peer.disconnect()


def large(size: int, to: str | None) -> bytes:
    """A message with so many bytes of annotations, most of them in many entries."""
    return message(b"large", da={f"{number:08}": True for number in range(size // 11)}, **({"to": to} if to else {}))


def send_in_frames(peer: Peer, number: int, data: bytes, settled: bool = False) -> None:
    """Send a message in frames that the gateway takes."""
    for start in range(0, len(data), PIECE):
        first = {"delivery_id": number, "delivery_tag": b"%d" % number, "message_format": 0, "settled": settled}
        more = start + PIECE < len(data)
        peer.send("transfer", handle=0, more=more, payload=data[start : start + PIECE], **(first if not start else {}))


ONCE, PARTS = 2 * ANNOTATIONS, 20 * ANNOTATIONS
"""Bytes that are taken at once, and in parts."""


@pytest.mark.parametrize(
    ("address", "reader", "size"),
    [
        ("chat/m", "chat/m", ONCE),
        ("chat/m", "chat/m", PARTS),
        ("news/m", "news/m", ONCE),
        ("svc/m", "services/m", PARTS),
        (None, "chat/m", ONCE),
        ("events/orders", None, ONCE),
    ],
)
def test_every_node_rejects(
    served: Served, watch: Watch, readers: dict[str, Peer], address: str | None, reader: str | None, size: int
) -> None:
    to = "chat/m" if address is None else None
    with served.peer(desired_capabilities=["ANONYMOUS-RELAY"]) as peer:
        peer.attach_sender(address)
        peer.until("flow", handle=0)
        send_in_frames(peer, 0, large(size, to))
        state = peer.until("disposition", first=0, settled=True).state
        assert (state.name, state["error"]["condition"]) == ("rejected", LIMIT)
        assert str(ANNOTATIONS) in state["error"]["description"]
        send_in_frames(peer, 1, large(ANNOTATIONS // 2, to))
        if reader is None:
            peer.until("disposition", first=1, state="accepted")
        else:
            assert b"large" in readers[reader].until("transfer").payload
    watch.logged("message refused", condition=LIMIT)


def test_a_settled_one_ends_the_link(served: Served) -> None:
    with served.peer() as peer:
        peer.attach_sender("events/orders")
        peer.until("flow", handle=0)
        send_in_frames(peer, 0, large(2 * ANNOTATIONS, None), settled=True)
        peer.until("detach", handle=0, closed=True, error=LIMIT)
