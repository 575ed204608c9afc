"""The base of a container's nodes that passes posts and retirements of clients into a transaction there (KM-14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.connectors.transactions.work import RemotePost, RemoteRetirement
from gateway.errors import DETACH_FORCED, MESSAGE_SIZE_EXCEEDED, NOT_IMPLEMENTED, AmqpError, Fault
from gateway.nodes.direct.node import DirectNode
from gateway.routing.cookie_offload import CookieOffload

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.amqp.link.transactions import Enlisting, PostedMessage, Retirement
    from gateway.connectors.transactions.resource import ContainerTransactions
    from gateway.connectors.transactions.work import WorkOwner
    from gateway.links.link import MessageOrigin, TransformFactory
    from gateway.nodes.direct.endpoints import ReceiverEndpoint


class TransactedNode(DirectNode):
    """A node whose messages go to, or come from, a container that may have a coordinator."""

    remote: Link | None
    """The link to the container."""

    def __init__(self, address: str, make_transform: TransformFactory, transactions: ContainerTransactions) -> None:
        super().__init__(address, make_transform, unused=lambda _: None)
        self._transactions: Final = transactions
        self._starved: dict[WorkOwner, None] = {}
        """The branches whose next post waits for credit here."""

    def post(self, link: MessageOrigin, post: PostedMessage, data: bytes) -> None:
        """See `DirectNode`."""
        post.transaction.enlist(self._transactions).add(RemotePost(self, link, post, data))

    def retire(self, transaction: Enlisting, retirement: Retirement) -> None:
        """See `DirectNode`."""
        branch = transaction.enlist(self._transactions)
        branch.check()
        branch.add(RemoteRetirement(retirement))

    def acquire(self, transaction: Enlisting) -> None:
        """Refused: the container has given the messages to the gateway before, outside of its transaction."""
        raise AmqpError(NOT_IMPLEMENTED, "messages of a remote container cannot be acquired in a transaction")

    def send_post(self, post: RemotePost, txn_id: bytes) -> bool:
        """See `PostingNode`."""
        link = self.remote
        if link is None or not link.open:
            raise AmqpError(DETACH_FORCED, "the link to the container was lost; try again", fault=Fault.BACKEND)
        if (receiver := self.receivers.pick(self.receivers.groups.values())) is None:
            if post.owner is not None:
                self._starved[post.owner] = None
            return False
        data = self._crossed(receiver, post)
        if 0 < link.most < len(data):
            text = f"the message has {len(data)} bytes, more than the max-message-size of its receiver ({link.most})"
            raise AmqpError(MESSAGE_SIZE_EXCEEDED, text)
        self.receivers.spend(receiver)
        link.post(data, (post, None), txn_id)
        return True

    @staticmethod
    def _crossed(receiver: ReceiverEndpoint, post: RemotePost) -> bytes:
        """The message with the transform for the container applied."""
        if post.context is receiver.link.context or (transform := receiver.transform_for(post)) is None:
            return post.data
        try:
            return transform(post.data)
        except CookieOffload:
            text = "the response address is too long for a transaction: its cookie must be stored first"
            raise AmqpError(NOT_IMPLEMENTED, text, scope=post.context.scope) from None
        except AmqpError as error:  # about the message, not about the container
            raise error.of(post.context.scope) from error.__cause__

    def credited(self, receiver: ReceiverEndpoint) -> None:
        """Use new credit for waiting posts first."""
        self.receivers.count(receiver)
        self._feed()
        super().credited(receiver)

    def leave_receiver(self, receiver: ReceiverEndpoint) -> None:
        """Refuse the posts that wait for the link to the container, if it has ended."""
        super().leave_receiver(receiver)
        self._feed()

    def _feed(self) -> None:
        starved, self._starved = self._starved, {}
        for branch in starved:
            branch.pump()
