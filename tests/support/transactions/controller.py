"""A transaction controller as a scripted peer (AMQP 1.0 part 4): declares, posts, retires and discharges."""

from __future__ import annotations

from typing import Any

from gateway.amqp.codec.codec import Described, Ulong, encode
from tests.support.amqp import frames
from tests.support.amqp.peer import SENDER, Peer
from tests.support.gateway.crossing import Outbox

LOCAL = "amqp:local-transactions"


def request(body: Described) -> bytes:
    """A message to a coordinator."""
    return encode(Described(Ulong(0x77), body))


def in_transaction(txn_id: bytes, outcome: Any = None) -> Described:
    """The state of a transfer or disposition in a transaction."""
    made = frames.composite(outcome) if isinstance(outcome, str) else outcome
    return frames.composite("transactional_state", txn_id=txn_id, outcome=made)


class Controller(Outbox):
    """A link to the coordinator."""

    def __init__(self, peer: Peer, handle: int = 0, **source: Any) -> None:
        self.peer, self.handle, self.outcomes = peer, handle, {}
        coordinator = frames.composite("coordinator", capabilities=[LOCAL])
        peer.attach(f"coordinator-{handle}", SENDER, handle, source=frames.source(**source), target=coordinator)
        self.attach = peer.until("attach", name=f"coordinator-{handle}")
        self.credit()

    def declare(self) -> bytes:
        """Return the id of a new transaction."""
        state = self.send(request(frames.composite("declare")))
        assert state.name == "declared", state
        return bytes(state["txn_id"])

    def discharging(self, txn_id: bytes, *, fail: bool | None = None) -> int:
        """Send a discharge; return its delivery id."""
        return self.post(request(frames.composite("discharge", txn_id=txn_id, fail=fail)))

    def discharge(self, txn_id: bytes, *, fail: bool | None = None) -> Any:
        """Return the outcome of a discharge."""
        return self.outcome(self.discharging(txn_id, fail=fail))
