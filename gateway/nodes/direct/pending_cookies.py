"""A message whose cookie is kept in shared state before it goes: it waits at its node, and all others behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from gateway.amqp.link.outcomes import SETTLED
from gateway.nodes.direct.endpoints import ReceiverEndpoint, ReceiverGroup
from gateway.nodes.direct.queue import WaitingMessage, WaitingMessages
from gateway.nodes.direct.receivers import Receivers
from gateway.nodes.link import Delivery, MessageOrigin, OutgoingLink
from gateway.routing.cookie_offload import CookieOffload


class HoldingNode(Protocol):
    """What a held message needs of its node."""

    @property
    def waiting(self) -> WaitingMessages: ...
    @property
    def receivers(self) -> Receivers: ...
    def takes(self, group: ReceiverGroup, message: WaitingMessage) -> bool: ...
    def wait(self, message: WaitingMessage, groups: Iterable[ReceiverGroup], *, first: bool = False) -> None: ...
    def serve(self, group: ReceiverGroup) -> None: ...
    def undeliverable(self, link: MessageOrigin, delivery: Delivery, settled: bool) -> None: ...
    def distribute_credit(self) -> None: ...
    def settle_down(self) -> None: ...


class PendingCookieQueue:
    """`message` is the one that is held; while there is one the node sends nothing."""

    __slots__ = ("_node", "_stirred", "message")

    def __init__(self, node: HoldingNode) -> None:
        self._node: Final = node
        self.message: WaitingMessage | None = None
        self._stirred: dict[ReceiverGroup, None] = {}

    def stir(self, groups: Iterable[ReceiverGroup]) -> None:
        """These have got messages or credit; if something is held they are served when it has gone."""
        if self.message is not None:
            self._stirred.update(dict.fromkeys(groups))

    def hold(self, wait: CookieOffload, receiver: ReceiverEndpoint, message: WaitingMessage) -> None:
        """Let `message` wait until it is known whether its cookie is kept; then `receiver` gets it."""
        if wait.kept is not None:  # known already, and not kept
            self._node.undeliverable(message.link, message.delivery, message.settled)
            self._node.distribute_credit()
            return
        self._node.waiting.add(message, ())
        self.message = message
        wait.on_persisted(lambda kept: self._known(message, receiver, wait.data if kept else None))

    def _known(self, message: WaitingMessage, receiver: ReceiverEndpoint, data: bytes | None) -> None:
        if self.message is message:
            self.message = None
        if not message.gone:  # else its sender has left
            self._node.waiting.take(message)
            self._go(message, receiver, data)
        stirred, self._stirred = self._stirred, {}
        for group in stirred:
            self._node.serve(group)
        self._node.settle_down()

    def _go(self, message: WaitingMessage, receiver: ReceiverEndpoint, data: bytes | None) -> None:
        """Send what may go; where the receiver has no credit any more it crosses again."""
        receivers, link, delivery = self._node.receivers, message.link, message.delivery
        if data is None:
            self._node.undeliverable(link, delivery, message.settled)
        elif receiver in receivers.all and receivers.count(receiver):
            receivers.spend(receiver)
            send(receiver.link, link, delivery, data, message.settled)
        else:
            self._again(WaitingMessage(link, delivery, message.data, message.settled))

    def _again(self, message: WaitingMessage) -> None:
        """Before all others that wait, for whoever has credit first."""
        node = self._node
        groups = [group for group in node.receivers.groups.values() if node.takes(group, message)]
        if groups:
            node.wait(message, groups, first=True)
            self._stirred = {**dict.fromkeys(groups), **self._stirred}
        else:
            node.undeliverable(message.link, message.delivery, message.settled)


def send(target: OutgoingLink, link: MessageOrigin, delivery: Delivery, data: bytes, settled: bool) -> None:
    """Send what is fit to go; the sender's delivery waits for the outcome."""
    if settled:
        link.settle(delivery, SETTLED)
        target.send(data, None, True)
    else:
        target.send(data, (link, delivery))
