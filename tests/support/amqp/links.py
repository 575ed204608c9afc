"""Short ways to make scripted peers with attached links; the test continues from there."""

from __future__ import annotations

from typing import Any

from tests.support.amqp import frames
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER, Peer


def connected(port: int, **fields: Any) -> Peer:
    """A peer through SASL, open and begin."""
    peer = Peer(port)
    peer.start(**fields)
    return peer


def receiving(port: int, address: str, credit: int = 10) -> Peer:
    """A peer that receives from an address and has given credit."""
    peer = connected(port)
    peer.attach_receiver(address)
    return peer.flow(0, link_credit=credit)


def sending(port: int, address: str | None) -> Peer:
    """A peer that sends to an address (None: the anonymous terminus) and has credit."""
    peer = connected(port)
    peer.attach_sender(address)
    peer.until("flow", handle=0)
    return peer


def refusal(port: int, address: str) -> str:
    """The condition a receiver at an address is refused with."""
    with connected(port) as peer:
        peer.attach("refused", RECEIVER, source=frames.source(address))
        peer.expect("attach", source=None)
        return str(peer.expect("detach", closed=True).error["condition"])


def passes(sender: Peer, receiver: Peer, number: int = 0) -> None:
    """The sender's message with this delivery id reaches the receiver, and its outcome comes back."""
    payload = message(b"number %d" % number)
    sender.transfer(payload)
    transfer = receiver.until("transfer")
    assert transfer.payload == payload
    receiver.disposition(transfer.delivery_id, "accepted")
    sender.until("disposition", first=number, state="accepted")


def outcomes(sender: Peer, count: int) -> dict[int, str]:
    """Wait for the outcomes of so many deliveries; return their names by delivery id."""
    found: dict[int, str] = {}
    while len(found) < count:
        frame = sender.until("disposition")
        ids = range(frame.first, (frame.first if frame.last is None else frame.last) + 1)
        found |= dict.fromkeys(ids, frame.state.name)
    return found
