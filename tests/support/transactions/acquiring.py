"""A receiver that acquires messages in transactions (AMQP 1.0 part 4, 4.4.3)."""

from __future__ import annotations

from typing import Any

from gateway.amqp.codec.types import Symbol
from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import sections
from tests.support.amqp.peer import RECEIVER, SENDER
from tests.support.gateway.crossing import Inbox
from tests.support.transactions.controller import in_transaction


class Acquirer(Inbox):
    """A receiving link whose flows name transactions."""

    def ask(self, txn_id: Any, credit: int, **fields: Any) -> None:
        """Grant so much credit for messages in a transaction."""
        named = {"properties": {Symbol("txn-id"): txn_id}, "delivery_count": self.received, **fields}
        self.peer.flow(self.handle, link_credit=credit, **named)

    def acquired(self, txn_id: bytes | None) -> Frame:
        """Return the next transfer, whose state names this transaction, or none."""
        transfer = self.transfer()
        assert (None if transfer.state is None else transfer.state["txn_id"]) == txn_id, transfer
        return transfer

    def bodies(self, txn_id: bytes | None, count: int) -> list[bytes]:
        """The data of the next transfers."""
        return [bytes(sections(self.acquired(txn_id).payload)["data"]) for _ in range(count)]

    def retire(self, transfer: Frame, txn_id: bytes | None, outcome: str = "accepted", *, settled: bool = True) -> None:
        """Give a message an outcome, in a transaction or in none."""
        state = outcome if txn_id is None else in_transaction(txn_id, outcome)
        self.peer.disposition(transfer.delivery_id, state, settled=settled, role=RECEIVER)

    def taken_back(self, *transfers: Frame) -> bool:
        """Whether the next dispositions take these messages back; anything else is read later."""
        wanted = {each.delivery_id for each in transfers}
        while wanted:
            found = self.peer.pick("disposition", role=SENDER)
            if not found.settled or not found.state.matches("released"):
                return False
            wanted -= set(range(found.first, (found.first if found.last is None else found.last) + 1))
        return True

    def drained(self, txn_id: bytes | None = None) -> bool:
        """Whether there is nothing for this link: the answer to a drain is all that comes."""
        fields: dict[str, Any] = {} if txn_id is None else {"properties": {Symbol("txn-id"): txn_id}}
        self.peer.flow(self.handle, link_credit=5, delivery_count=self.received, drain=True, **fields)
        while (frame := self.peer.receive()) is not None and frame.kind != "transfer":
            if frame.kind == "flow" and frame.drain and frame.handle == self.handle:
                self.received = frame.delivery_count
                return True
        return False
