"""Link pairs as a scripted peer makes them: two links of one session with one name (CORE-10)."""

from __future__ import annotations

from typing import Any, NamedTuple

from gateway.amqp.codec.codec import Symbol
from tests.support.amqp import frames
from tests.support.amqp.peer import RECEIVER, SENDER, Peer
from tests.support.gateway.crossing import Outbox

PAIRED = {Symbol("paired"): True}


class Responses:
    """The half on which responses come."""

    def __init__(self, peer: Peer, handle: int) -> None:
        self.peer, self.handle = peer, handle

    def take(self) -> bytes:
        """Return the next response, accepted."""
        transfer = self.peer.until("transfer", handle=self.handle)
        self.peer.disposition(transfer.delivery_id, "accepted")
        return bytes(transfer.payload)

    def detach(self) -> None:
        """Take this half away."""
        self.peer.detach(1).until("detach", handle=self.handle)


class Paired(NamedTuple):
    """Both halves of a pair on one connection."""

    requests: Outbox
    responses: Responses


def attach_half(address: str | None, half: bool) -> dict[str, Any]:
    """Return what the attach of one half says; our handle is 0 for the sending one, the answer has the other side's.

    A source without an address is no source to proton: with the anonymous terminus, requests go to any address.
    """
    ends = {"target": frames.target(address)} if half is SENDER else {"source": frames.source(address or "echo")}
    return {"handle": int(half is RECEIVER), "properties": PAIRED, **ends}


def attach(peer: Peer, half: bool, address: str | None) -> Any:
    """Attach one half of the pair `p`; return the answer."""
    peer.attach("p", half, **attach_half(address, half))
    return peer.until("attach", name="p", role=not half)


def paired_with(peer: Peer, address: str) -> Paired:
    """Wait for the answer to the sending half, attach the other."""
    assert peer.until("attach", name="p", role=RECEIVER).properties == PAIRED
    answer = attach(peer, RECEIVER, address)
    peer.flow(1, link_credit=100, delivery_count=0)
    return Paired(Outbox.adopt(peer), Responses(peer, answer.handle))
