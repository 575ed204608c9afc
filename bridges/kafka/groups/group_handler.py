"""What the handlers of all links of consumer groups pass on to the receiver of the events."""

from __future__ import annotations

from typing import Final, Generic, TypeVar

from bridges.kafka.links.receiver import LogReceiver
from gateway.amqp.link.transactions import Enlisting, Retirement
from gateway.links.link import PolicyVerdict

ReceiverT = TypeVar("ReceiverT", bound=LogReceiver)


class ForwardingHandler(Generic[ReceiverT]):
    """The handler of a group's link; `receiver` reads the log and sends its events."""

    def __init__(self, receiver: ReceiverT) -> None:
        self._receiver: Final = receiver
        # Instance attributes, so that an outcome needs no additional call.
        self.on_credit: Final = receiver.on_credit
        self.on_outcome = receiver.on_outcome
        self.on_accepted = receiver.on_accepted

    def takes_batches(self) -> bool:
        """See `handlers.BatchOutgoing`."""
        return self._receiver.takes_batches()

    def policy_changed(self, verdict: PolicyVerdict) -> None:
        """Nothing to do: the gateway checks the link itself."""

    def on_retire(self, transaction: Enlisting, retirement: Retirement) -> None:
        """As `Outgoing.on_retire`."""
        self._receiver.on_retire(transaction, retirement)

    def on_acquire(self, transaction: Enlisting) -> None:
        """As `Outgoing.on_acquire`."""
        self._receiver.on_acquire(transaction)

    def positions(self) -> dict[int, int]:
        """As `Outgoing.positions`."""
        return self._receiver.positions()
