"""The copies of one message for all receivers of a multicast node, and the one outcome for its sender."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, Generic, Protocol, TypeVar

from gateway.amqp.link.outcomes import FAILED, RELEASED, Modified, Outcome, Rejected
from gateway.links.link import Delivery, MessageOrigin, OutgoingLink
from gateway.links.wrapped_origin import WrappedOrigin

SLICE: Final = 100
"""Copies that are sent in one turn of the loop."""


class Recipient(Protocol):
    """What a copy needs of a receiver."""

    @property
    def link(self) -> OutgoingLink: ...


R = TypeVar("R", bound=Recipient)


class Copies(WrappedOrigin):
    """The origin of the copies, in place of the sender's link: settles the message once all copies have outcomes."""

    def __init__(self, link: MessageOrigin, delivery: Delivery, count: int) -> None:
        self._link, self._delivery, self._left = link, delivery, count
        self._worst: Outcome | None = None
        self.context, self.requester = link.context, link.requester

    @property
    def scope(self) -> str:
        return self._link.scope

    @property
    def open(self) -> bool:
        return self._link.open

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        if self._worst is None or _severity(outcome) > _severity(self._worst):
            self._worst = outcome
        self._left -= 1
        if not self._left:
            self._link.settle(self._delivery, self._worst)

    def missed(self, nobody: Callable[[MessageOrigin, Delivery], None]) -> None:
        """A receiver left before its copy was sent; `nobody` is called if no copy was sent at all."""
        self._left -= 1
        if self._left:
            return
        if self._worst is None:
            nobody(self._link, self._delivery)
        else:
            self._link.settle(self._delivery, self._worst)


class Round(Generic[R]):
    """Sends one message to many receivers; `send(receiver)` sends a copy, and raises only unexpected errors."""

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
        """Whether this receiver has not been sent its copy yet."""
        return receiver in self._ahead or receiver in self._blocked

    @property
    def unfinished(self) -> bool:
        """Whether there are receivers that have not been tried yet."""
        return bool(self._ahead)

    @property
    def over(self) -> bool:
        """Whether all copies have been sent."""
        return not (self._ahead or self._blocked)

    def send_next(self) -> None:
        """Send the next copies; receivers that have lost their credit get theirs when they have credit again."""
        for receiver in list(islice(self._ahead, SLICE)):
            if receiver not in self._ahead:  # it has left or has been served meanwhile
                continue
            if receiver.link.credit > 0:
                self.serve(receiver)
            else:
                del self._ahead[receiver]
                self._blocked[receiver] = None

    def serve(self, receiver: R) -> None:
        """Send its copy to a receiver that has not got it yet and has credit."""
        if receiver.link.credit > 0 and self.leave(receiver):
            try:
                self._send(receiver)
            except Exception:
                self.copies.settle(self.delivery, FAILED)
                raise

    def leave(self, receiver: R) -> bool:
        """Remove a receiver; returns whether its copy had not been sent yet."""
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
