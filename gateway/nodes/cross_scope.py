"""Messages of another scope on their way into a node that is no meeting point: a Kafka topic (X-5, KM-22).

A topic is the other scope's, and keeps no delivery annotations. So requests are rewritten on their way in, like those
to any receiver that announces nothing; or, where the relay says `replies: cookie`, annotated: the topic keeps the
annotations in headers of the record, for a responder at Kafka that knows them, and for readers over AMQP (`leaving`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.amqp.link.handlers import BatchIncoming
from gateway.amqp.link.outcomes import RELEASED
from gateway.amqp.link.wrappers import IncomingWrapper
from gateway.errors import AmqpError
from gateway.nodes.link import Delivery, IncomingLink, Link, is_incoming, is_outgoing
from gateway.nodes.reject import reject_delivery
from gateway.nodes.wrapped_link import WrappedIncomingLink
from gateway.routing.cookie_offload import CookieOffload
from gateway.routing.link_context import RESPONSE_ADDRESS_SUPPORTED, LinkContext, announced_capabilities, link_context
from gateway.routing.topic_requests import TopicRequests

if TYPE_CHECKING:
    from gateway.nodes.base import Node, Resolver
    from gateway.nodes.link import Transform


class _Target(NamedTuple):
    capabilities: tuple[str, ...]
    address: str | None = None


class _Inside(NamedTuple):
    """The node as the receiver of a crossing message."""

    context: LinkContext
    target: _Target
    address: str | None = None
    announcement_counts: bool = True


class CrossScopeNode:
    """A node of `scope`; what comes from other scopes crosses before the node has it, what is read of it afterwards."""

    def __init__(self, node: Node, scope: Resolver) -> None:
        self._node: Final = node
        self._scope: Final = scope

    def attach(self, link: Link) -> None:
        if is_outgoing(link):
            link.leaving = TopicRequests(self._scope, link)
        elif is_incoming(link) and link.context.scope != self._scope.name and link.context.replies != "none":
            link = _CrossScopeLink(link, self._scope)
        self._node.attach(link)


class _CrossScopeLink(WrappedIncomingLink):
    """The link as the node sees it: its handler gets messages that have crossed."""

    def __init__(self, link: IncomingLink, scope: Resolver) -> None:
        super().__init__(link)
        self._scope: Final = scope

    def accept(self, handler: Any, *, capabilities: Iterable[str] = (), **more: Any) -> None:
        """The target leads into another scope, and honours annotations (RA-2.2-4)."""
        announced = announced_capabilities(self._link, self._link.context.announces)
        crossing = _CrossScopeHandler(self._link, handler, self._scope)
        self._link.accept(crossing, capabilities=(*capabilities, *announced), **more)


class _CrossScopeHandler(IncomingWrapper):
    """The handler around that of the node."""

    def __init__(self, link: IncomingLink, handler: BatchIncoming, scope: Resolver) -> None:
        super().__init__(handler)
        self._link: Final = link
        self._scope: Final = scope
        self._crossing: tuple[Any, Transform | None] = (None, None)

    def on_transfers(self, messages: Sequence[tuple[Any, bytes, bool]]) -> None:
        """Several: what stands before one that does not simply cross is handed on before that one."""
        crossed: list[tuple[Any, bytes, bool]] = []
        for delivery, data, settled in messages:
            try:
                crossed.append((delivery, self._cross(data), settled))
            except (AmqpError, CookieOffload) as why:
                if crossed:
                    self._handler.on_transfers(crossed)
                    crossed = []
                if self._link.open:
                    self._not_crossed(delivery, settled, why)
                if not self._link.open:
                    return
        if crossed:
            self._handler.on_transfers(crossed)

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        """Cross, then what the node does with it; what cannot cross is rejected."""
        try:
            data = self._cross(data)
        except (AmqpError, CookieOffload) as why:
            self._not_crossed(delivery, settled, why)
        else:
            self._handler.on_transfer(delivery, data, settled)

    def _cross(self, data: bytes) -> bytes:
        crossing = self._crossed()
        return data if crossing is None else crossing(data)

    def _not_crossed(self, delivery: Delivery, settled: bool, why: AmqpError | CookieOffload) -> None:
        if isinstance(why, AmqpError):
            reject_delivery(self._link, delivery, why, settled)
            self._link.grant(1)
            return
        crossed = partial(self._kept, delivery, why.data, settled)
        if why.kept is None:
            why.on_persisted(crossed)
        else:  # known already, and not kept
            crossed(why.kept)

    def _kept(self, delivery: Delivery, data: bytes, settled: bool, kept: bool) -> None:
        """The long cookie is in shared state, or never will be."""
        if not self._link.open:
            if settled:
                self._link.drop(delivery)
            return
        if kept:
            self._handler.on_transfer(delivery, data, settled)
            return
        if settled:
            self._link.drop(delivery)
        else:
            self._link.settle(delivery, RELEASED)
        self._link.grant(1)

    def _crossed(self) -> Transform | None:
        """How messages come in; decided anew when a reload has made new crossings."""
        transforms = self._scope.context.transforms
        if self._crossing[0] is not transforms:
            capable = (RESPONSE_ADDRESS_SUPPORTED,) if self._link.context.replies == "cookie" else ()
            inside = _Inside(link_context(self._scope.name), _Target(capable))
            made = self._scope.context.transform_for(self._link, inside)
            self._crossing = (transforms, made)
        return self._crossing[1]
