"""The copies of one message for all receivers of a multicast node, and what its sender hears of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import TYPE_CHECKING, Final, Generic, Protocol, TypeVar

from gateway.amqp.link.outcomes import FAILED, RELEASED, Modified, Outcome, Rejected
from gateway.nodes.link import Delivery, MessageOrigin, OutgoingLink

if TYPE_CHECKING:
    from gateway.errors import AmqpError

SLICE: Final = 100
"""Copies that are sent before others have their turn of the loop."""


class Recipient(Protocol):
    """A receiver as far as its copy goes."""

    @property
    def link(self) -> OutgoingLink: ...


R = TypeVar("R", bound=Recipient)


class Copies:
    """Stands for the sender's link while copies are under way: settles once all outcomes are in."""

    def __init__(self, link: MessageOrigin, delivery: Delivery, count: int) -> None:
        self._link, self._delivery, self._left = link, delivery, count
        self._worst: Outcome | None = None
        self.context, self.requester = link.context, link.requester

    @property
    def rejects(self) -> bool:
        return self._link.rejects

    @property
    def scope(self) -> str:
        return self._link.scope

    @property
    def open(self) -> bool:
        return self._link.open

    def message_refused(self, error: AmqpError) -> None:
        self._link.message_refused(error)

    def tag(self, delivery: Delivery) -> bytes:
        return self._link.tag(delivery)

    def fail(self, error: AmqpError) -> None:
        self._link.fail(error)

    def drop(self, delivery: Delivery) -> None:
        self._link.drop(delivery)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        if self._worst is None or _severity(outcome) > _severity(self._worst):
            self._worst = outcome
        self._left -= 1
        if not self._left:
            self._link.settle(self._delivery, self._worst)

    def missed(self, nobody: Callable[[MessageOrigin, Delivery], None]) -> None:
        """A receiver has left before it was sent its copy; `nobody` is called where none was sent to anybody."""
        self._left -= 1
        if self._left:
            return
        if self._worst is None:
            nobody(self._link, self._delivery)
        else:
            self._link.settle(self._delivery, self._worst)


class Round(Generic[R]):
    """One message on its way to many: `send(outlet)` sends a copy, which raises nothing that is not a bug."""

    __slots__ = ("_ahead", "_blocked", "_send", "copies", "delivery", "settled")

    def __init__(
        self,
        copies: Copies,
        delivery: Delivery,
        settled: bool,
        receivers: Iterable[R],
        send: Callable[[R], None],
    ) -> None:
        self.copies: Final = copies
        self.delivery: Final = delivery
        self.settled: Final = settled
        self._send: Final = send
        self._ahead: Final = dict.fromkeys(receivers)
        self._blocked: Final[dict[R, None]] = {}

    def __contains__(self, receiver: object) -> bool:
        """Whether this one is still to be sent its copy."""
        return receiver in self._ahead or receiver in self._blocked

    @property
    def goes_on(self) -> bool:
        """Whether there are receivers whose turn has not come."""
        return bool(self._ahead)

    @property
    def over(self) -> bool:
        """Whether nobody is left to be sent a copy."""
        return not (self._ahead or self._blocked)

    def some(self) -> None:
        """Send the next copies; who has lost its credit since the round began is sent its own when it has some."""
        for receiver in list(islice(self._ahead, SLICE)):
            if receiver not in self._ahead:  # it has left, or has been served, while others were sent theirs
                continue
            if receiver.link.credit > 0:
                self.serve(receiver)
            else:
                del self._ahead[receiver]
                self._blocked[receiver] = None

    def serve(self, receiver: R) -> None:
        """Send its copy to one that waits for it and has credit."""
        if receiver.link.credit > 0 and self.leave(receiver):
            try:
                self._send(receiver)
            except Exception:
                self.copies.settle(self.delivery, FAILED)
                raise

    def leave(self, receiver: R) -> bool:
        """This one is sent no copy; whether one was to be sent."""
        for waiting in (self._ahead, self._blocked):
            if receiver in waiting:
                del waiting[receiver]
                return True
        return False


def _severity(outcome: Outcome) -> int:
    order = (Rejected, Modified)
    if outcome is RELEASED:
        return 1
    return next((3 - index for index, kind in enumerate(order) if isinstance(outcome, kind)), 0)
