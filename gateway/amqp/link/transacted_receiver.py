"""The half of a link on which the peer sends, with messages in transactions (AMQP 1.0 part 4, 4.4.1)."""

from __future__ import annotations

from functools import partial
from typing import Final

from cproton_ffi import lib

from gateway.amqp.link import dispositions
from gateway.amqp.link.outcomes import ACCEPTED, Provisional
from gateway.amqp.link.receiver_link import Message, ReceiverHalf
from gateway.amqp.link.transactions import unknown
from gateway.amqp.message.bounds import ANNOTATIONS
from gateway.amqp.proton import batch
from gateway.amqp.proton.handles import ProtonDelivery

_MERGED: Final = 8
"""Outcomes for which one frame costs less than one frame each, though output has to be collected twice for it."""


class TransactedReceiverHalf(ReceiverHalf):
    """`ReceiverHalf` for a peer that may have transactions, or other message-formats."""

    __slots__ = ()

    def received_of_any_format(self, messages: list[Message]) -> None:
        """`received_with_states` if the peer has used another message-format than 0."""
        for message in messages:
            if not (self.open and self._foreign(message[0], message[2]) and self.open):
                self.received_with_states([message], False)

    def received_with_states(self, messages: list[Message], alike: bool) -> None:
        """`received_all` if the peer has sent in a transaction: messages of one come in runs (part 4, 4.4.1).

        `alike`: it is known that all came with the same state.
        """
        at = 0
        while at < len(messages):
            end, state = batch.same_state(messages, at, alike)
            run = messages if end - at == len(messages) else messages[at:end]
            at = end
            if state is not None:
                self._posted(dispositions.transactional(state)[0], run)
            elif self.open:
                self.received_all(run)

    def _posted(self, txn_id: bytes, run: list[Message]) -> None:
        """Messages were sent in a transaction: it has them."""
        found = self.engine.peer.transactions
        usual = 1 < len(run) <= self._granted and batch.all_plain(run, self._at_once, ANNOTATIONS, True, False)
        if self.open and usual and found is not None and found.knows(txn_id):
            self._granted -= len(run)
            self.transfers += len(run)
            found.post_all(self, txn_id, run)
            return
        for message in run:
            if self.open:
                self._posted_one(txn_id, *message)
            if not self.open:
                self._missed(txn_id)

    def _missed(self, txn_id: bytes) -> None:
        """A message is lost with its link, or may be: its transaction must not succeed without it (4.4.4)."""
        if (found := self.engine.peer.transactions) is not None and found.knows(txn_id):
            found.miss(self, txn_id)

    def _dropped(self, delivery: ProtonDelivery) -> None:
        if (state := dispositions.read_transactional(delivery)) is not None:
            self._missed(state[0])

    def _posted_one(self, txn_id: bytes, delivery: int, data: bytes, settled: bool) -> None:
        self._granted -= 1
        if self._granted < 0:
            self._no_credit()
        elif 0 < self.max_message_size < len(data):
            self._too_large(len(data))
        elif (found := self.engine.peer.transactions) is None or not found.knows(txn_id):
            self._reject(delivery, settled, unknown(txn_id))
        else:
            self.transfers += 1
            found.post(self, txn_id, delivery, data, settled and not self._never_settled)

    def _complete(self, delivery: ProtonDelivery, data: bytes) -> None:
        if (state := dispositions.read_transactional(delivery)) is None:
            super()._complete(delivery, data)
            return
        lib.pn_link_advance(self.ptr)
        number, settled = batch.address(delivery), bool(lib.pn_delivery_settled(delivery))
        if not self._foreign(number, settled):
            self._posted_one(state[0], number, data, settled)
        if not self.open:
            self._missed(state[0])

    def _on_part(self, delivery: ProtonDelivery) -> None:
        found = self.engine.peer.transactions
        state = None if found is None else dispositions.read_transactional(delivery)
        if found is not None and state is not None and self._partial_body is None:
            found.part(self, state[0])
        super()._on_part(delivery)
        if state is not None and not self.open:
            self._missed(state[0])

    def drop_partial_body(self) -> None:
        """Drop the received part of an unfinished message, which is in no transaction any more."""
        super().drop_partial_body()
        if (found := self.engine.peer.transactions) is not None:
            found.part(self, None)

    def settle_all(self, deliveries: list[int], outcome: Provisional) -> None:
        """`settle` for several; no effect if the link has ended."""
        if self.open and deliveries:
            fields = dispositions.provisional(outcome, self.scope)
            if outcome.outcome is ACCEPTED and len(deliveries) >= _MERGED:
                self.engine.restate(partial(batch.accept_all, deliveries, self.held), dispositions.state(fields))
            else:
                batch.settle_all(deliveries, self.held, dispositions.TRANSACTIONAL, fields)
                self.engine.touch()
            counts, name = self.outcome_counts, outcome.name
            counts[name] = counts.get(name, 0) + len(deliveries)
