"""Messages from another scope into a Kafka topic (X-5, KM-22).

A topic stores no delivery annotations. So requests are rewritten on their way in, as for any receiver that announces no
support. With `replies: cookie` in the relay rule they are annotated instead: headers of the record have the
annotations, for responders at Kafka that know them, and for readers over AMQP (`leaving`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from gateway.amqp.link.handlers import BatchIncoming, Incoming, Outgoing
from gateway.amqp.link.outcomes import RELEASED
from gateway.amqp.link.transactions import PostedMessage
from gateway.amqp.link.wrappers import IncomingWrapper
from gateway.errors import NOT_IMPLEMENTED, AmqpError
from gateway.links.link import Delivery, IncomingLink, NodeLink, is_incoming, is_outgoing
from gateway.links.link_context import RESPONSE_ADDRESS_SUPPORTED, LinkContext, announced_capabilities, link_context
from gateway.links.reject import reject_delivery
from gateway.links.wrapped_link import WrappedIncomingLink
from gateway.nodes.topic_requests import TopicRequests
from gateway.routing.cookie_offload import CookieOffload

if TYPE_CHECKING:
    from gateway.links.link import Transform
    from gateway.nodes.base import Node, Resolver


class _Target(NamedTuple):
    capabilities: tuple[str, ...]
    address: str | None = None


class _TopicEnd(NamedTuple):
    """The node as the target of a message from another scope."""

    context: LinkContext
    target: _Target
    address: str | None = None
    announcement_counts: bool = True


class CrossScopeNode:
    """A node of `scope` that gets transformed messages of other scopes; those that are read are transformed, too."""

    def __init__(self, node: Node, scope: Resolver) -> None:
        self._node: Final = node
        self._scope: Final = scope

    def attach(self, link: NodeLink) -> None:
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

    def around(self, handler: Incoming | Outgoing) -> Incoming:
        return _CrossScopeHandler(self._link, cast("BatchIncoming", handler), self._scope)

    def accept(self, handler: Incoming | Outgoing, *, capabilities: Iterable[str] = (), **more: Any) -> None:
        """The target leads into another scope, and honours annotations (RA-2.2-4)."""
        announced = announced_capabilities(self._link, self._link.context.announces)
        super().accept(handler, capabilities=(*capabilities, *announced), **more)


class _CrossScopeHandler(IncomingWrapper[BatchIncoming]):
    """The handler around that of the node."""

    def __init__(self, link: IncomingLink, handler: BatchIncoming, scope: Resolver) -> None:
        super().__init__(handler)
        self._link: Final = link
        self._scope: Final = scope
        self._cached: tuple[Any, Transform | None] = (None, None)

    def on_transfers(self, messages: Sequence[tuple[Any, bytes, bool]]) -> None:
        """Transform several; those before one that fails or waits are passed on before it is handled."""
        crossed: list[tuple[Any, bytes, bool]] = []
        for delivery, data, settled in messages:
            try:
                crossed.append((delivery, self._transformed(data), settled))
            except (AmqpError, CookieOffload) as why:
                if crossed:
                    self._handler.on_transfers(crossed)
                    crossed = []
                if self._link.open:
                    self._not_transformed(delivery, settled, why)
                if not self._link.open:
                    return
        if crossed:
            self._handler.on_transfers(crossed)

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        """Transform a message and pass it on; reject it if it cannot be transformed."""
        try:
            data = self._transformed(data)
        except (AmqpError, CookieOffload) as why:
            self._not_transformed(delivery, settled, why)
        else:
            self._handler.on_transfer(delivery, data, settled)

    def on_post(self, post: PostedMessage, data: bytes) -> None:
        """Transform a message in a transaction."""
        try:
            data = self._transformed(data)
        except CookieOffload:
            text = "the response address is too long for a transaction: its cookie must be stored first"
            raise AmqpError(NOT_IMPLEMENTED, text, scope=self._link.context.scope) from None
        self._handler.on_post(post, data)

    def _transformed(self, data: bytes) -> bytes:
        crossing = self._transform()
        try:
            return data if crossing is None else crossing(data)
        except AmqpError as error:  # about the message, not about the topic
            raise error.of(self._link.context.scope) from error.__cause__

    def _not_transformed(self, delivery: Delivery, settled: bool, why: AmqpError | CookieOffload) -> None:
        if isinstance(why, AmqpError):
            reject_delivery(self._link, delivery, why, settled)
            self._link.grant(1)
            return
        crossed = partial(self._stored, delivery, why.data, settled)
        if why.kept is None:
            why.on_persisted(crossed)
        else:  # the store has already failed
            crossed(why.kept)

    def _stored(self, delivery: Delivery, data: bytes, settled: bool, kept: bool) -> None:
        """The long cookie was stored in shared state, or could not be."""
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

    def _transform(self) -> Transform | None:
        """The transform of messages; decided again after a reload."""
        transforms = self._scope.context.transforms
        if self._cached[0] is not transforms:
            capable = (RESPONSE_ADDRESS_SUPPORTED,) if self._link.context.replies == "cookie" else ()
            topic = _TopicEnd(link_context(self._scope.name), _Target(capable))
            made = self._scope.context.transform_for(self._link, topic)
            self._cached = (transforms, made)
        return self._cached[1]
