"""A message whose cookie must be stored in shared state before it is sent: it and all later ones wait at the node."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

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

    __slots__ = ("_deferred", "_node", "message")

    def __init__(self, node: HoldingNode) -> None:
        self._node: Final = node
        self.message: WaitingMessage | None = None
        self._deferred: dict[ReceiverGroup, None] = {}

    def defer(self, groups: Iterable[ReceiverGroup]) -> None:
        """These groups have got messages or credit; if a message is held, they are served after it."""
        if self.message is not None:
            self._deferred.update(dict.fromkeys(groups))

    def hold(self, wait: CookieOffload, receiver: ReceiverEndpoint, message: WaitingMessage) -> None:
        """Let `message` wait until its cookie is stored; then send it to `receiver`."""
        if wait.kept is not None:  # the store has already failed
            self._node.undeliverable(message.link, message.delivery, message.settled)
            self._node.distribute_credit()
            return
        self._node.waiting.add(message, ())
        self.message = message
        wait.on_persisted(lambda kept: self._known(message, receiver, wait.data if kept else None))

    def _known(self, message: WaitingMessage, receiver: ReceiverEndpoint, data: bytes | None) -> None:
        if self.message is message:
            self.message = None
        if not message.gone:  # its sender is still there
            self._node.waiting.take(message)
            self._send(message, receiver, data)
        deferred, self._deferred = self._deferred, {}
        for group in deferred:
            self._node.serve(group)
        self._node.settle_down()

    def _send(self, message: WaitingMessage, receiver: ReceiverEndpoint, data: bytes | None) -> None:
        """Send the message; if the receiver has no credit any more, transform it again for another one."""
        receivers, link, delivery = self._node.receivers, message.link, message.delivery
        if data is None:
            self._node.undeliverable(link, delivery, message.settled)
        elif receiver in receivers.all and receivers.count(receiver):
            receivers.spend(receiver)
            send(self._node, receiver.link, link, delivery, data, message.settled, message.data)
        else:
            self._requeue(WaitingMessage(link, delivery, message.data, message.settled))

    def _requeue(self, message: WaitingMessage) -> None:
        """Queue the message before all others."""
        node = self._node
        groups = [group for group in node.receivers.groups.values() if node.takes(group, message)]
        if groups:
            node.wait(message, groups, first=True)
            self._deferred = {**dict.fromkeys(groups), **self._deferred}
        else:
            node.undeliverable(message.link, message.delivery, message.settled)
