"""The sender to a container: over a connector of the policy, or over the subscription's own connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from secrets import token_hex
from typing import TYPE_CHECKING, Final, NamedTuple

from bridges.cloudevents.sinks.amqp.deliveries import Deliveries, PendingAnswer
from gateway.amqp.codec.types import Value
from gateway.amqp.link.handlers import Outgoing
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.proton.proton_data import AttachReply
from gateway.errors import DETACH_FORCED, AmqpError

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link
    from gateway.nodes.base import Remotes


class SenderTarget(NamedTuple):
    """The fields of the sender's attach; `name` None means a new name for each attach."""

    address: str
    name: str | None
    properties: Mapping[Value, Value]
    settled: bool


class ContainerSender(Outgoing):
    """The sender link to a container; if it ended, the next message attaches it again."""

    def __init__(self, connector: Remotes, target: SenderTarget, deliveries: Deliveries) -> None:
        self._connector: Final = connector
        self._target: Final = target
        self._deliveries: Final = deliveries
        self._link: Link | None = None
        self._attaching = False
        self._closed = False
        connector.watch(self)

    def attach(self) -> None:
        """Attach if the connection is open and no attach is pending."""
        engine: Engine | None = self._connector.engine
        if engine is None or self._attaching or self._closed:
            return
        target = self._target
        name = target.name or f"subscription-{token_hex(8)}"
        if any(each.name == name for each in engine.links):
            error = AmqpError(DETACH_FORCED, "another link has this name")
            asyncio.get_running_loop().call_soon(self._deliveries.link_lost, error)
            return
        self._attaching = True
        link = engine.attach(name, incoming=False, known=True)
        link.request(self, AttachReply(target.address, properties=target.properties, settled=target.settled))

    # -- the connector's

    def opened(self, engine: Engine) -> None:
        """The connector is connected."""
        self.attach()

    def closed(self) -> None:
        """The connection was lost, which also ends a pending attach."""
        self._end(None)

    # -- the link's

    def on_attached(self, link: Link) -> None:
        """The container has attached."""
        if self._closed:
            link.detach()
            return
        self._link = link
        self._deliveries.link_attached(self)

    def on_refused(self, error: AmqpError) -> None:
        """The container refused the link."""
        self._end(error)

    def on_credit(self) -> None:
        """The container has granted credit."""
        self._deliveries.pump()
        if self._link is not None and self._link.draining:
            self._link.drained()

    def on_outcome(self, context: PendingAnswer, outcome: Outcome) -> None:
        """The container has sent an outcome."""
        self._deliveries.on_outcome(context, outcome)

    def on_detach(self, error: AmqpError | None) -> None:
        """The container has detached, or the connection was lost."""
        self._end(error)

    def _end(self, error: AmqpError | None) -> None:
        self._attaching, self._link = False, None
        self._deliveries.link_lost(error)

    # -- the deliveries'

    @property
    def credit(self) -> int:
        """See `SendingLink`."""
        return self._link.credit if self._link is not None and self._link.open else 0

    def send(self, data: bytes, waiting: PendingAnswer) -> None:
        """See `SendingLink`."""
        assert self._link is not None
        self._link.send(data, waiting, settled=self._target.settled)

    def close(self) -> None:
        """Detach."""
        self._closed = True
        self._connector.unwatch(self)
        link, self._link = self._link, None
        if link is not None and link.open:
            link.detach()
