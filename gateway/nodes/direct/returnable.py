"""How a direct node sends a message. One that came settled and is acquired in a transaction is kept here: its sender
cannot send it again.
"""

from __future__ import annotations

from typing import Final, Protocol

from gateway.amqp.link.outcomes import SETTLED, Outcome, Released
from gateway.links.link import Delivery, MessageOrigin, OutgoingLink
from gateway.links.link_context import LinkContext
from gateway.links.wrapped_origin import WrappedOrigin
from gateway.principal import Requester


class KeepingNode(Protocol):
    """What such a message uses of its node."""

    def take_back(self, link: MessageOrigin, delivery: Delivery, data: bytes) -> None: ...


class ReturnableMessage(WrappedOrigin):
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


def send(
    node: KeepingNode,
    target: OutgoingLink,
    link: MessageOrigin,
    delivery: Delivery,
    data: bytes,
    settled: bool,
    original: bytes,
) -> None:
    """Send a message, perhaps other than the `original` one; an unsettled one waits for its receiver's outcome."""
    if not settled:
        target.send(data, (link, delivery))
    elif target.acquiring:
        target.send(data, (ReturnableMessage(node, target, link, delivery, original), delivery))
    else:
        link.settle(delivery, SETTLED)
        target.send(data, None, True)
