"""Posts and retirements of clients, passed on to a container within its transaction (AMQP 1.0 part 4, 4.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, Outcome, Provisional, Rejected
from gateway.errors import PRECONDITION_FAILED, TRANSACTION_ROLLBACK, AmqpError, Fault

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.amqp.link.transactions import Enlisting, PostedMessage, Retirement
    from gateway.links.link import Delivery, MessageOrigin
    from gateway.links.link_context import LinkContext
    from gateway.principal import Requester


class PostingNode(Protocol):
    """The part of a node (`node.TransactedNode`) that posts use."""

    def send_post(self, post: RemotePost, txn_id: bytes) -> bool:
        """Send a post in the container's transaction. Returns False without credit; `WorkOwner.pump` is called later.

        Raises AmqpError if it cannot be sent.
        """


class WorkOwner(Protocol):
    """The part of a branch that work uses."""

    @property
    def transaction(self) -> Enlisting: ...

    def over(self) -> None:
        """Called when a piece of work has its outcome."""

    def pump(self) -> None:
        """Called when there is credit again."""


class RemotePost:
    """A message for the container; for its node it is the message's origin (`MessageOrigin`)."""

    open = rejects = True

    def __init__(self, node: PostingNode, origin: MessageOrigin, post: PostedMessage, data: bytes) -> None:
        self.post: Final = post
        self.data: Final = data
        self.context: Final[LinkContext] = origin.context
        self.requester: Final[Requester] = origin.requester
        self.scope: Final = origin.scope
        self.behind: Final = origin.behind
        self._node: Final = node
        self._origin: Final = origin
        self.owner: WorkOwner | None = None
        """Its branch, until the message has an outcome."""

    def send(self, txn_id: bytes) -> bool:
        """Send it, if there is credit; raises AmqpError if it cannot be sent."""
        return self._node.send_post(self, txn_id)

    def refuse(self, error: AmqpError) -> None:
        """Refuse the message: it is not part of the transaction."""
        if (owner := self.owner) is not None:
            self.owner = None
            self.post.refuse(error)
            owner.over()

    def give_up(self) -> None:
        """Drop the message, because the transaction was rolled back before it was sent."""
        if (owner := self.owner) is not None:
            self.owner = None
            self.post.release()
            owner.over()

    # -- from the node (`MessageOrigin`)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """The container has given the message its outcome in the transaction."""
        if isinstance(outcome, Rejected):
            self.refuse(outcome.error or AmqpError(PRECONDITION_FAILED, "the container rejected it", scope=self.scope))
            return
        if (owner := self.owner) is None:
            return
        self.owner = None
        if outcome is ACCEPTED:
            self.post.accept()
        else:
            self._release()
        owner.over()

    def _release(self) -> None:
        text = "the container did not accept a message of the transaction"
        self.post.transaction.fail(AmqpError(TRANSACTION_ROLLBACK, text, fault=Fault.BACKEND))
        self.post.release()

    def drop(self, delivery: Delivery) -> None:
        """See `MessageOrigin`: the message was not sent."""
        self.settle(delivery, RELEASED)

    def fail(self, error: AmqpError) -> None:
        """See `MessageOrigin`: the message is refused."""
        self.refuse(error)

    def tag(self, delivery: Delivery) -> bytes:
        """The delivery-tag of the post."""
        return self.post.tag

    def message_refused(self, error: AmqpError) -> None:
        """Log and count the refusal."""
        self._origin.message_refused(error)


class RemoteRetirement:
    """A client's outcome for a message from the container."""

    def __init__(self, retirement: Retirement) -> None:
        self._settled: Final = retirement.settled
        self._outcome: Final = retirement.outcome
        link, self._delivery = cast("tuple[Link, Delivery]", retirement.hand_over())
        self._link: Final = link
        self.owner: WorkOwner | None = None

    def send(self, txn_id: bytes) -> bool:
        """Settle the message in the container's transaction. Raises AmqpError if its link has ended."""
        if not self._link.open:
            text = "the link on which the container sent a message of the transaction has ended"
            raise AmqpError(TRANSACTION_ROLLBACK, text, fault=Fault.BACKEND)
        outcome = Provisional(txn_id, self._outcome)
        if self._settled:
            self._link.settle(self._delivery, outcome)
        else:
            self._link.propose(self._delivery, outcome)
        self._over()
        return True

    def refuse(self, error: AmqpError) -> None:
        """Fail the transaction: the outcome cannot be part of it, and a receiver gets no answer to its outcome."""
        if self.owner is not None:
            self.owner.transaction.fail(error)
            self.give_up()

    def give_up(self) -> None:
        """Undo the outcome, because the transaction was rolled back before it was sent: a settled one has failed."""
        if self._settled:
            self._link.settle(self._delivery, FAILED)
        self._over()

    def _over(self) -> None:
        owner, self.owner = self.owner, None
        if owner is not None:
            owner.over()
