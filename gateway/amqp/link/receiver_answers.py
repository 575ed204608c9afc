"""What a receiver of ours answers: credit, and the outcomes of received messages (AMQP 1.0 part 2, 2.6.7, 2.6.12)."""

from __future__ import annotations

from functools import partial
from typing import Final, Self

from cproton_ffi import ffi, lib

from gateway.amqp.link import dispositions
from gateway.amqp.link.outcomes import ACCEPTED, RELEASED, SETTLED, Outcome, Rejected, from_node
from gateway.amqp.link.state import LinkState
from gateway.amqp.proton import batch
from gateway.errors import MESSAGE_SIZE_EXCEEDED, RESOURCE_LIMIT_EXCEEDED, TRANSFER_LIMIT_EXCEEDED, AmqpError

_MOST: Final = 2**31 - 1
"""The maximum credit that proton can count."""
TOO_MUCH: Final = (
    "this connection has too many unsettled messages (limits.memory, limits.user_memory, gateway.memory): "
    "wait for outcomes, then send again"
)


class ReceiverAnswers(LinkState):
    """The answers of a link on which the peer sends."""

    __slots__ = ()

    # -- credit

    def grant(self: Self, credit: int) -> None:
        """Let the peer send `credit` more messages."""
        credit = min(credit, _MOST - self._granted - self._withheld)
        if self.open and credit > 0 and self.engine.granting:
            if self.engine.withholds(self):
                self._withheld += credit
                return
            self._granted += credit
            lib.pn_link_flow(self.ptr, credit)
            self.engine.touch()

    @property
    def granted(self) -> int:
        """Credit that is granted and not used yet, or withheld until the peer holds less."""
        return self._granted + self._withheld

    def grant_withheld(self) -> None:
        """Grant the withheld credit: the peer holds less again."""
        credit, self._withheld = self._withheld, 0
        self.grant(credit)

    def drain(self) -> None:
        """Ask the peer to use or return its credit; `on_drained` follows."""
        self.draining = True
        lib.pn_link_drain(self.ptr, 0)
        self.engine.touch()

    def _drain_answered(self) -> None:
        """Handle a flow during a drain, which is done when no credit is left (2.6.7)."""
        if self.draining and lib.pn_link_credit(self.ptr) <= 0:
            self.draining = False
            lib.pn_link_drained(self.ptr)
            self._granted = 0
            self.handler.on_drained()

    # -- outcomes

    def settle(self, delivery: int, outcome: Outcome) -> None:
        """Settle the peer's delivery; no effect if the link has ended."""
        if not self.open:
            return
        if outcome is ACCEPTED:
            batch.accept(delivery, self.held)
            self.accepted += 1
        else:
            told = self.engine.config.told_outcome
            outcome = from_node(outcome, self.behind)
            outcome = outcome if told is None else told(outcome)
            self.held.remove(delivery)
            self._tell(delivery, dispositions.fitting(outcome, self.scope, self.engine.peer.max_frame_size))
            self.outcome_counts[outcome.name] = self.outcome_counts.get(outcome.name, 0) + 1
        engine = self.engine
        if not engine.dirty:
            engine.touch()

    def _tell(self: Self, delivery: int, outcome: Outcome) -> None:
        if (state := dispositions.long_state(outcome, self.scope)) is not None:
            self.engine.restate(partial(batch.accept, delivery), state)
            return
        pointer = batch.delivery_at(delivery)
        dispositions.write(pointer, outcome, self.scope)
        lib.pn_delivery_settle(pointer)

    def propose(self, delivery: int, outcome: Outcome) -> None:
        """Give the peer's delivery a state without settling it; no effect if the link has ended."""
        if self.open:
            dispositions.write(batch.delivery_at(delivery), outcome, self.scope)
            self.engine.touch()

    def accept_all(self, deliveries: list[int]) -> None:
        """Accept several deliveries."""
        if self.open and deliveries:
            batch.accept_all(deliveries, self.held)
            self.accepted += len(deliveries)
            self.engine.touch()

    def drop(self: Self, delivery: int) -> None:
        """Drop and count a pre-settled delivery that nobody takes."""
        self.outcome_counts["dropped"] = self.outcome_counts.get("dropped", 0) + 1
        if self.open:
            self.settle(delivery, SETTLED)
        else:
            self.engine.counted_late(self)

    def forget(self, delivery: int) -> None:
        """Forget a delivery that came settled."""
        self.held.remove(delivery)
        lib.pn_delivery_settle(batch.delivery_at(delivery))

    def tag(self, delivery: int) -> bytes:
        """The delivery-tag, which may be any bytes; empty if the link has ended."""
        if not self.open:  # proton frees it with the link
            return b""
        raw = lib.pn_delivery_tag(batch.delivery_at(delivery))
        return bytes(ffi.buffer(raw.start, raw.size)) if raw.size else b""

    def message_refused(self: Self, error: AmqpError) -> None:
        """A message of this link was refused: for log and counters."""
        self.engine.message_refused(self, error)

    # -- refusals

    def _reject(self, delivery: int, settled: bool, error: AmqpError) -> None:
        """Reject a message before it reaches a node; end its link if the sender cannot get `rejected`."""
        error = self.own(error)
        self.message_refused(error)
        if (settled and not self._never_settled) or not self.rejects:
            self.detach(error)
        else:
            self.settle(delivery, Rejected(error))
            self.grant(1)

    def _refuse_one(self, delivery: int, settled: bool) -> None:
        if self.engine.ending:
            if settled:
                self.drop(delivery)
            else:
                self.settle(delivery, RELEASED)
            return
        error = self.own(AmqpError(RESOURCE_LIMIT_EXCEEDED, TOO_MUCH))
        self.message_refused(error)
        shared = self.engine.config.shared
        if not settled:
            self.settle(delivery, RELEASED if shared or not self.rejects else Rejected(error))
        elif shared:
            self.drop(delivery)
        else:
            self.detach(error)
        self.grant(1)

    def _too_large(self, size: int) -> None:
        text = f"the message has at least {size} bytes; the max-message-size of this link is {self.max_message_size}"
        self.detach(self.own(AmqpError(MESSAGE_SIZE_EXCEEDED, text)))

    def _no_credit(self) -> None:
        self.detach(self.own(AmqpError(TRANSFER_LIMIT_EXCEEDED, "a transfer arrived without link credit")))
