"""The ends of a relay at the container behind a connector: our own links there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from gateway.amqp.link.outcomes import Outcome, Rejected
from gateway.errors import AmqpError
from gateway.links.link import SendContext
from gateway.nodes.direct.endpoints import EndpointNode, ReceiverEndpoint, SenderEndpoint

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link


class RelayNode(EndpointNode, Protocol):
    """What the ends at the container use of their relay."""

    def attached(self, end: SenderEndpoint | ReceiverEndpoint, remote: Link) -> None:
        """The container has answered the attach."""

    def refused(self, error: AmqpError) -> None:
        """The container refuses the link."""

    def remote_drained(self) -> None:
        """The container has answered a drain."""

    def remote_ended(self, remote: Link, error: AmqpError | None) -> None:
        """The link has ended: the container has detached it, or the connection was lost."""


class RemoteReceiver(ReceiverEndpoint):
    """Our sending link at the container."""

    def __init__(self, relay: RelayNode, link: Link) -> None:
        super().__init__(relay, link)
        self._relay, self._remote = relay, link

    def on_attached(self, link: Link) -> None:
        self._relay.attached(self, link)

    def on_refused(self, error: AmqpError) -> None:
        self._relay.refused(error)

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        self._relay.remote_ended(self._remote, error)


class RenamedReceiver(RemoteReceiver):
    """The same, at an address that the peer did not name."""

    def on_outcome(self, context: SendContext, outcome: Outcome) -> None:
        if isinstance(outcome, Rejected) and outcome.error is not None:
            outcome.error.of_nobody()
        super().on_outcome(context, outcome)


class RemoteSender(SenderEndpoint):
    """Our receiving link at the container."""

    def __init__(self, relay: RelayNode, link: Link) -> None:
        super().__init__(relay, link)
        self._relay, self._remote = relay, link

    def on_attached(self, link: Link) -> None:
        self._relay.attached(self, link)

    def on_refused(self, error: AmqpError) -> None:
        self._relay.refused(error)

    def on_drained(self) -> None:
        self._relay.remote_drained()

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        self._relay.remote_ended(self._remote, error)
