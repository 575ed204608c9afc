"""The half of a link on which we send: credit, transfers, the peer's outcomes (AMQP 1.0 part 2, 2.6.7 to 2.6.12)."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final, Self

from cproton_ffi import ffi, lib

from gateway.amqp.codec.decoder import malformed
from gateway.amqp.codec.types import Value
from gateway.amqp.link import dispositions
from gateway.amqp.link.draining_sender import DrainingSender
from gateway.amqp.link.handlers import OutgoingMessage, SendContext, Transfer
from gateway.amqp.link.outcomes import ACCEPTED, FAILED, SETTLED, Outcome, Provisional
from gateway.amqp.link.transactions import NamedTransaction, Transactions, unknown
from gateway.amqp.proton import batch
from gateway.amqp.proton.handles import ProtonDelivery
from gateway.errors import AmqpError

_RECEIVED: Final = lib.PN_RECEIVED
_GONE: Final = object()


class SenderHalf(DrainingSender):
    """The half of a link on which we send."""

    __slots__ = ()

    @property
    def credit(self: Self) -> int:
        """The peer's credit; 0 while its socket or session is full."""
        if self.engine.blocked:
            self.engine.hold_up(self)
            return 0
        return self.window

    @property
    def announcement_counts(self: Self) -> bool:
        """Whether the peer's open lets its target announce that it supports response annotations (RA 2.1)."""
        return self.engine.config.annotates(self.engine.offered)

    @property
    def sent(self) -> int:
        """The delivery-count (2.6.7): written deliveries and returned credit."""
        return self.counted + self.transfers - int(lib.pn_link_queued(self.ptr))

    @property
    def unsettled_bytes(self) -> int:
        """Bytes of unsettled messages."""
        return self.unsettled.bytes

    @property
    def keeps_too_much(self: Self) -> bool:
        """Whether too much is held for the peer, so that nothing may be sent until `on_credit`."""
        if self.engine.stuffed:
            self.engine.hold_up(self)
        return self.engine.stuffed

    def keep(self, size: int) -> None:
        """Account for `size` bytes more (or fewer) of messages that the peer gave back."""
        self.engine.kept += size
        self.engine.touch()

    def send(self, data: bytes, context: SendContext, settled: bool = False) -> None:
        """Send one message; `context` comes back with its outcome (not when `settled`).

        A receiver that asked for settled messages sends no outcome, but the sender of the message may wait for one: it
        gets accepted, as for a missing state (KM-12).
        """
        if self.acquisition is not None:
            self.acquisition.send(data, context, settled)
            return
        engine, silent = self.engine, settled or self.presettled
        self.window -= 1
        self.transfers += 1
        engine.serial = serial = engine.serial + 1
        if batch.send(self.proton_address, serial, data, engine.tally if silent else self.unsettled, context):
            engine.blocked = True  # until it is written and charged
        if silent and not settled:
            self.handler.on_outcome(context, ACCEPTED)
        if not engine.dirty:
            engine.touch()

    def post(self, data: bytes, context: SendContext, txn_id: bytes) -> None:
        """Send one message in a transaction of the peer's coordinator (part 4, 4.4.1)."""
        serial, _ = self.send_with_state(data, Provisional(txn_id, SETTLED))
        self.unsettled.add(serial, len(data), context)

    def send_with_state(self, data: bytes, state: Provisional) -> tuple[int, ProtonDelivery]:
        """Send one message with a state; returns its number and its delivery, which the caller keeps or settles."""
        engine = self.engine
        self.window -= 1
        self.transfers += 1
        engine.serial = serial = engine.serial + 1
        tag = ffi.from_buffer("char[]", serial.to_bytes(8, sys.byteorder))
        delivery = lib.pn_delivery(self.ptr, ffi.new("pn_bytes_t *", (8, tag))[0])
        dispositions.write(delivery, state, self.scope)
        lib.pn_link_send(self.ptr, data, len(data))
        lib.pn_link_advance(self.ptr)
        engine.tally.unflushed += len(data)
        engine.blocked = engine.blocked or engine.tally.full  # until it is written and charged
        engine.touch()
        return serial, delivery

    def settle_at_once(self, delivery: ProtonDelivery) -> None:
        """Settle a message of ours."""
        lib.pn_delivery_settle(delivery)
        self.engine.touch()

    def send_all(self, messages: list[OutgoingMessage]) -> None:
        """`send` for several messages; the first item of each is its bytes, and each is its own context."""
        if self.acquisition is not None:
            for message in messages:
                self.send(message[0], message)
            return
        engine, silent = self.engine, self.presettled
        into = engine.tally if silent else self.unsettled
        engine.serial = batch.send_all(self.proton_address, engine.serial, messages, into)
        engine.blocked = engine.blocked or engine.tally.full
        self.window -= len(messages)
        self.transfers += len(messages)
        engine.touch()
        if not silent:
            return
        if self.unsettled.in_batches:
            self.handler.on_accepted(messages)
            return
        for message in messages:
            self.handler.on_outcome(message, ACCEPTED)

    def forward(
        self, messages: list[Transfer], start: int, origin: object, changed: list[bytes] | None = None
    ) -> int:
        """Send messages of another link from `start` on; the context of each is `(origin, delivery)`.

        `changed`: what to send in their place, for no more of them than there is credit. Returns the index of the first
        that was not sent: there is no credit for it, it came settled, or it is acquired in a transaction.
        """
        engine = self.engine
        if engine.blocked or self.presettled or self.window <= 0 or self.acquisition is not None:
            return start
        end = min(len(messages), start + (self.window if changed is None else len(changed)))
        before, address = engine.serial, self.proton_address
        engine.serial = batch.forward(address, before, messages, start, end, changed, self.unsettled, origin)
        engine.blocked = engine.blocked or engine.tally.full
        sent = engine.serial - before
        self.window -= sent
        self.transfers += sent
        engine.touch()
        return start + sent

    def accepted_all(self, found: list[SendContext] | list[int]) -> None:
        """The peer has accepted these deliveries: their contexts if the handler takes batches, else their numbers."""
        unsettled = self.unsettled
        if unsettled.in_batches:
            if self.open or self.handler.owes_outcomes:
                self.handler.on_accepted(found)
            return
        take, on_outcome = unsettled.take, self.handler.on_outcome
        for number in found:
            if self.acquired and number in self.acquired:
                self.acquired[number].accepted(number)
                continue
            context = take(number, _GONE)
            if context is not _GONE and self.open:  # otherwise the link has ended meanwhile, and its end took them
                on_outcome(context, ACCEPTED)

    def number(self, delivery: ProtonDelivery) -> int:
        """The key of a delivery in `unsettled`: its tag."""
        tag = lib.pn_delivery_tag(delivery)
        return int.from_bytes(ffi.buffer(tag.start, tag.size), sys.byteorder)

    def updated(self, delivery: ProtonDelivery, number: int, state: int) -> None:
        """Handle a state other than accepted: settle, and pass on the outcome."""
        if state == dispositions.TRANSACTIONAL:
            self._retire(delivery, number)
            return
        settled = bool(lib.pn_delivery_settled(delivery))
        if (not state or state == _RECEIVED) and not settled:
            return
        outcome = dispositions.read(delivery, state, self.scope, self.engine.disposition)
        if number in self.acquired:
            said = SETTLED if state == _RECEIVED else outcome
            self.acquired[number].told(number, delivery, settled, said, None)
            return
        context = self.unsettled.take(number)
        if outcome is SETTLED or (outcome is FAILED and self.default_outcome is not SETTLED):
            outcome = self.default_outcome  # also for a state that is no outcome (3.5.3)
        lib.pn_delivery_settle(delivery)
        engine = self.engine
        if not engine.dirty:
            engine.touch()
        if self.open:
            self.handler.on_outcome(context, outcome)

    def _retire(self: Self, delivery: ProtonDelivery, number: int) -> None:
        """Handle an outcome in a transaction (part 4, 4.4.2)."""
        state = dispositions.read_transactional(delivery, self.engine.disposition)
        found, settled = self.engine.peer.transactions, bool(lib.pn_delivery_settled(delivery))
        if state is None:  # settled without one after a rollback
            self.updated(delivery, number, 0)
        elif found is None or not found.knows(state[0]):
            self.detach(self.own(unknown(state[0])))
        elif number in self.acquired:
            self.acquired[number].told(number, delivery, settled, state[1], state[0])
        elif settled or dispositions.bulky(state[1]):
            self._settle_in(found, number, delivery, *state)
        elif state[1] is not SETTLED:  # else it has no outcome yet
            found.retire(self, state[0], dispositions.UnsettledRetirement(self, number, delivery, state[1]))

    def _settle_in(
        self: Self, found: Transactions, number: int, delivery: ProtonDelivery, txn_id: bytes, outcome: Outcome
    ) -> None:
        """A message is settled in a transaction; if no outcome was named, that is a state that is none (3.5.3)."""
        if outcome is SETTLED:
            outcome = found.undecided if self.default_outcome is SETTLED else self.default_outcome
        before, context = self.unsettled.bytes, self.unsettled.take(number)
        size = before - self.unsettled.bytes
        retirement = dispositions.SettledRetirement(self, context, outcome, number=number, size=size)
        self.settle_at_once(delivery)
        found.retire(self, txn_id, retirement)

    def updated_late(self: Self, delivery: ProtonDelivery) -> None:
        """An outcome came after we had ended the link: the transaction that it is for cannot succeed without it."""
        found, state = self.engine.peer.transactions, dispositions.read_transactional(delivery)
        if found is not None and state is not None and found.knows(state[0]):
            found.miss(self, state[0])

    def settle_sent(self, number: int, delivery: ProtonDelivery, outcome: Outcome) -> None:
        """Settle a message of ours whose transaction is committed, unless that has happened before."""
        if self.open and number in self.unsettled:
            context = self.unsettled.take(number)
            dispositions.write_any(delivery, outcome, self.scope)
            lib.pn_delivery_settle(delivery)
            self.engine.touch()
            self.handler.on_outcome(context, outcome)

    # -- transactional acquisition

    @property
    def acquiring(self) -> bool:
        """Whether what is sent now is acquired in a transaction (part 4, 4.4.3)."""
        return self.acquisition is not None

    def name_transaction(self, named: NamedTransaction) -> None:
        """A flow of the peer names the transaction of what is sent from now on."""
        if not self.open:
            self.named = named  # until the attach is answered
            return
        try:
            self._name_transaction(named.txn_id)
        except AmqpError as error:
            self.detach(error)

    def _name_transaction(self: Self, txn_id: Value) -> None:
        found = self.engine.peer.transactions
        if txn_id is None:
            self.acquisition = None
        elif not isinstance(txn_id, bytes):
            raise self.own(malformed("the txn-id in the properties of a flow is binary"))
        elif self.acquisition is None or self.acquisition.txn_id != txn_id:
            if found is None or not found.knows(txn_id):
                raise self.own(unknown(txn_id))
            self.acquisition = found.acquire(self, txn_id)
            self.unsettled.in_batches = False  # an accepted message is looked up by its number from now on

    def flow_later(self) -> None:
        """Use the credit anew, after the present call of the node."""
        self.engine.oversize.append(self.flowed)
        self.engine.touch()

    if TYPE_CHECKING:  # `Link` has it; a body here would stand for one that is missing

        def flowed(self) -> None:
            """See `Link`."""

    # -- the end

    def take_unsettled(self) -> list[SendContext]:
        """The contexts of messages without an outcome, oldest first; for `on_detach`.

        Those that were acquired in a transaction wait for its end.
        """
        for acquisition in set(self.acquired.values()):
            acquisition.link_ended()
        return self.unsettled.take_all()
