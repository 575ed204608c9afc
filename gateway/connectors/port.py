"""What relays use of a connector, and whether responses to their requests come back through the gateway."""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.connectors.transactions.resource import ContainerTransactions
    from gateway.errors import AmqpError
    from gateway.links.link import NodeLink
    from gateway.links.link_context import LinkContext


class ConnectedLink(Protocol):
    """Something that attaches a link on each connection of a connector."""

    def connect(self, engine: Engine) -> None:
        """The connector is connected."""


class ConnectorPort(Protocol):
    """What a relay uses of its connector."""

    @property
    def engine(self) -> Engine | None:
        """The connection, while it can be used."""
    @property
    def routes(self) -> bool:
        """Whether the policy routes responses in the scope of the container."""

    @property
    def transactions(self) -> ContainerTransactions:
        """The transactions at the container."""

    def join(self, relay: ConnectedLink) -> None:
        """Call `relay.connect` on each new connection."""

    def leave(self, relay: ConnectedLink) -> None: ...
    def later(self, seconds: float, call: Callable[[], None]) -> TimerHandle: ...
    def remote_context(self, *, routes_responses: bool) -> LinkContext:
        """The context of a link to the container; `routes_responses`: responses come back through the gateway."""

    def when_returnable(self, local: NodeLink, then: Callable[[AmqpError | None], None]) -> None:
        """Call `then` when responses to requests on `local` can be received, or with the error."""


def needs_response_routing(local: NodeLink, scope: str) -> bool:
    """Whether responses to requests on `local` have to come back through this gateway from a container in `scope`.

    In one scope the container reaches the reply-to by itself, but for `$me` (RA-2.3-8).
    """
    return local.incoming and (local.context.scope != scope or local.context.pair is not None)
