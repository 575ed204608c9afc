"""A message whose cookie must be stored in shared state before it is sent: it and all later ones wait at the node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from gateway.links.link import Delivery, MessageOrigin
from gateway.nodes.direct.endpoints import ReceiverEndpoint, ReceiverGroup
from gateway.nodes.direct.queue import WaitingMessage, WaitingMessages
from gateway.nodes.direct.receivers import Receivers
from gateway.nodes.direct.returnable import send
from gateway.routing.cookie_offload import CookieOffload


class HoldingNode(Protocol):
    """What `PendingCookieQueue` uses of its node."""

    @property
    def waiting(self) -> WaitingMessages: ...
    @property
    def receivers(self) -> Receivers: ...
    def takes(self, group: ReceiverGroup, message: WaitingMessage) -> bool: ...
    def wait(self, message: WaitingMessage, groups: Iterable[ReceiverGroup], *, first: bool = False) -> None: ...
    def serve(self, group: ReceiverGroup) -> None: ...
    def undeliverable(self, link: MessageOrigin, delivery: Delivery, settled: bool) -> None: ...
    def take_back(self, link: MessageOrigin, delivery: Delivery, data: bytes) -> None: ...
    def distribute_credit(self) -> None: ...
    def settle_down(self) -> None: ...


class PendingCookieQueue:
    """Holds a `message`; while there is one, the node sends nothing."""

    __slots__ = ("_deferred", "message")

    def __init__(self) -> None:
        self.message: WaitingMessage | None = None
        self._deferred: dict[ReceiverGroup, None] = {}

    def defer(self, groups: Iterable[ReceiverGroup]) -> None:
        """These groups have got messages or credit; if a message is held, they are served after it."""
        if self.message is not None:
            self._deferred.update(dict.fromkeys(groups))

    def hold(
        self, node: HoldingNode, wait: CookieOffload, receiver: ReceiverEndpoint, message: WaitingMessage
    ) -> None:
        """Let `message` wait at `node` until its cookie is stored; then send it to `receiver`."""
        if wait.kept is not None:  # the store has already failed
            node.undeliverable(message.link, message.delivery, message.settled)
            node.distribute_credit()
            return
        node.waiting.add(message, ())
        self.message = message
        wait.on_persisted(lambda kept: self._known(node, message, receiver, wait.data if kept else None))

    def _known(
        self, node: HoldingNode, message: WaitingMessage, receiver: ReceiverEndpoint, data: bytes | None
    ) -> None:
        if self.message is message:
            self.message = None
        if not message.gone:  # its sender is still there
            node.waiting.take(message)
            self._send(node, message, receiver, data)
        deferred, self._deferred = self._deferred, {}
        for group in deferred:
            node.serve(group)
        node.settle_down()

    def _send(
        self, node: HoldingNode, message: WaitingMessage, receiver: ReceiverEndpoint, data: bytes | None
    ) -> None:
        """Send the message; if the receiver has no credit any more, transform it again for another one."""
        receivers, link, delivery = node.receivers, message.link, message.delivery
        if data is None:
            node.undeliverable(link, delivery, message.settled)
        elif receiver in receivers.all and receivers.count(receiver):
            receivers.spend(receiver)
            send(node, receiver.link, link, delivery, data, message.settled, message.data)
        else:
            self._requeue(node, WaitingMessage(link, delivery, message.data, message.settled))

    def _requeue(self, node: HoldingNode, message: WaitingMessage) -> None:
        """Queue the message before all others."""
        groups = [group for group in node.receivers.groups.values() if node.takes(group, message)]
        if groups:
            node.wait(message, groups, first=True)
            self._deferred = {**dict.fromkeys(groups), **self._deferred}
        else:
            node.undeliverable(message.link, message.delivery, message.settled)
