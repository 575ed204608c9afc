"""Temporary nodes: made for a dynamic source or target, gone with its link (AMQP 1.0 part 3, 3.5.3, 3.5.10)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from gateway.amqp.codec.codec import Described, Symbol, Ulong
from gateway.errors import NOT_ALLOWED, NOT_FOUND, RESOURCE_DELETED, AmqpError, quoted
from gateway.nodes.direct.node import DirectNode
from gateway.principal import Principal, User
from policies.reserved import TEMPORARY

if TYPE_CHECKING:
    from gateway.links.link import NodeLink
    from gateway.nodes.base import Resolver

_DELETE_ON_CLOSE: Final = 0x2B
_LIFETIME: Final = {Symbol("lifetime-policy"): Described(Ulong(_DELETE_ON_CLOSE), [])}


class Temporary(DirectNode):
    """A direct node that ends when its `creator`, the link that created it, ends."""

    named_here = True
    creator: NodeLink

    def admit(self, link: NodeLink, principal: Principal) -> None:
        """Raise NOT_ALLOWED if `link` is of another connection than the creator.

        Other connections may send if the creator receives, on the link that created the node or on another (JMS creates
        temporary queues with a sender). The gateway may send responses, because the right of their requester was
        checked (`reply_rights`).
        """
        if link.engine is self.creator.engine:
            return
        if not link.incoming:
            raise AmqpError(NOT_ALLOWED, "only the connection that created this temporary node may receive from it")
        if self.creator.incoming and not self.receivers.all and isinstance(principal, User):
            raise AmqpError(NOT_ALLOWED, "only the connection that created this temporary node may send to it")

    def leave_sender(self, sender: Any) -> None:
        super().leave_sender(sender)
        self._end_with(sender.link)

    def leave_receiver(self, receiver: Any) -> None:
        super().leave_receiver(receiver)
        self._end_with(receiver.link)

    def _end_with(self, link: NodeLink) -> None:
        if link is self.creator:
            self._unused(self)
            self.close(AmqpError(RESOURCE_DELETED, "the temporary node was deleted with the link that created it"))


T = TypeVar("T", bound=Temporary)


class Temporaries:
    """The temporary nodes of one scope; their addresses begin with `$temp/` and cannot be guessed."""

    def __init__(self, scope: Resolver) -> None:
        self._scope = scope
        self._nodes: dict[str, Temporary] = {}

    def create(self, link: NodeLink) -> None:
        """Create a node for a dynamic terminus; its lifetime is always delete-on-close."""
        self.add(Temporary, link, node_properties=_LIFETIME).attach(link)

    def add(self, kind: type[T], link: NodeLink, **more: Any) -> T:
        """Create a node of `kind` that ends with `link`; the caller attaches the link."""
        address = f"{TEMPORARY}{self._scope.context.new_name()}"
        context = self._scope.context
        node = kind(address, context.transform_for, unused=self._drop, soon=context.soon, **more)
        node.creator = link
        self._nodes[address] = node
        return node

    def _drop(self, node: DirectNode) -> None:
        self._nodes.pop(node.address, None)

    def find(self, address: str) -> Temporary | None:
        """The node at `address`, if there is one in this process."""
        return self._nodes.get(address)

    def at(self, address: str) -> Temporary:
        """The node at `address`; raises NOT_FOUND. `Temporary.admit` checks who may attach."""
        node = self._nodes.get(address)
        if node is None:
            raise AmqpError(NOT_FOUND, f"{quoted(address)}: no node has this address")
        return node

    def __len__(self) -> int:
        return len(self._nodes)
