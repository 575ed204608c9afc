"""A worker of a consumer group: consumes, transforms and produces in transactions on one connection."""

from __future__ import annotations

from tests.support.amqp.frames import Frame
from tests.support.amqp.members import Member, requested_properties
from tests.support.amqp.messages import message, sections
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.transactions.controller import Controller, in_transaction


class Worker(Member):
    """A link of the group `g` that has whatever partitions the group gives it, with a controller beside it."""

    def __init__(self, port: int, inputs: str, outputs: str) -> None:
        super().__init__(port, inputs, requested_properties("g"))
        self.attached()
        self.inbox = Inbox.adopt(self.peer)
        self.controller = Controller(self.peer, 1)
        self.outbox = Outbox(self.peer, outputs, 2)
        self.outbox.credit()
        self.outbox.outcomes = self.controller.outcomes
        self.peer.flow(0, link_credit=100)  # only now: its own attaches skip what comes before their answers

    def events(self, count: int) -> list[tuple[bytes, Frame]]:
        """The next events, with their bodies."""
        return [(bytes(sections(each.payload)["data"]), each) for each in (self.inbox.transfer() for _ in range(count))]

    def work(self, txn_id: bytes, events: list[tuple[bytes, Frame]], *, settled: bool = True) -> None:
        """Make something of each event in a transaction, and accept the event in it."""
        for body, transfer in events:
            state = self.outbox.send(message(b"of " + body), state=in_transaction(txn_id))
            assert state.matches({"outcome": "accepted"})
            self.peer.disposition(transfer.delivery_id, in_transaction(txn_id, "accepted"), settled=settled)

    def consume(self, count: int) -> list[bytes]:
        """Make something of the next events in a transaction of its own; return their bodies."""
        txn_id, events = self.controller.declare(), self.events(count)
        self.work(txn_id, events)
        assert self.controller.discharge(txn_id).matches("accepted")
        return [body for body, _ in events]
