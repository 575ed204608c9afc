"""A message that came settled and is acquired in a transaction: its sender cannot send it again, so it is kept here."""

from __future__ import annotations

from typing import Final, Protocol

from gateway.amqp.link.outcomes import SETTLED, Outcome, Released
from gateway.errors import AmqpError
from gateway.links.link import Delivery, MessageOrigin, OutgoingLink
from gateway.links.link_context import LinkContext
from gateway.principal import Requester


class KeepingNode(Protocol):
    """What such a message uses of its node."""

    def take_back(self, link: MessageOrigin, delivery: Delivery, data: bytes) -> None: ...


class ReturnableMessage:
    """The origin of the message for its receiver; its node gets it back if the transaction is rolled back."""

    open = rejects = True

    def __init__(
        self, node: KeepingNode, target: OutgoingLink, link: MessageOrigin, delivery: Delivery, data: bytes
    ) -> None:
        """`data`: the message as it came; `target` is charged for it."""
        self.context: Final[LinkContext] = link.context
        self.requester: Final[Requester] = link.requester
        self.scope: Final = link.scope
        self._node: Final = node
        self._target: Final = target
        self._link: Final = link
        self._data: Final = data
        target.keep(len(data))

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        """The receiver has given the message its outcome, or has it no more."""
        self._target.keep(-len(self._data))
        if isinstance(outcome, Released):
            self._node.take_back(self._link, delivery, self._data)
        else:
            self._link.settle(delivery, SETTLED)

    def drop(self, delivery: Delivery) -> None:
        """See `MessageOrigin`, as everything below."""
        self._link.drop(delivery)

    def fail(self, error: AmqpError) -> None:
        self._link.fail(error)

    def tag(self, delivery: Delivery) -> bytes:
        return self._link.tag(delivery)

    def message_refused(self, error: AmqpError) -> None:
        self._link.message_refused(error)
