"""The sender to an address of the scope: its node sees a link of the subscription's owner."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from bridges.cloudevents.sinks.amqp.deliveries import Deliveries, PendingAnswer
from gateway.amqp.codec.types import ValueMap
from gateway.amqp.link.config import EngineConfig, PeerInfo
from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.message.hop import ROUTING
from gateway.amqp.proton.proton_data import ABSENT
from gateway.errors import AmqpError
from gateway.links.internal_link import InternalLink
from gateway.links.link_context import link_context
from gateway.principal import User

if TYPE_CHECKING:
    from gateway.nodes.base import Resolver


class SubscriptionEngine:
    """The part of a link's engine that nodes read (`gateway.links.link.LinkEngine`)."""

    remote_container: Final = "subscription"
    opened: Final = True
    blocked: Final = False
    closed: Final = False
    offered: Final = frozenset[str]()
    desired: Final = frozenset[str]()

    def __init__(self, scope: str, user: str) -> None:
        self.config: Final = EngineConfig(container_id="")
        self.peer: Final = PeerInfo(scope=scope, user=user)


class LocalLink(InternalLink[Incoming]):
    """One link to the node; `gateway.amqp.link.link.Link` describes the members that nodes use."""

    incoming: Final = True
    rejects: Final = True

    def __init__(self, scope: Resolver, owner: str, address: str, properties: ValueMap, deliveries: Deliveries) -> None:
        user = User(scope.name, owner)
        super().__init__(link_context(scope.name), user)
        self._principal: Final = user
        self._node_scope: Final = scope
        self._deliveries: Final = deliveries
        self._credit = 0
        self._delivery_numbers: Final[dict[PendingAnswer, int]] = {}
        self._count = 0
        self.user: Final = owner
        self.engine: Final = SubscriptionEngine(scope.name, owner)
        self.scope: Final = scope.name
        self.name: Final = "subscription"
        self.address: Final = address
        self.source: Final = ABSENT._replace(present=True, address="subscription")
        self.target: Final = ABSENT._replace(present=True, address=address)
        self.properties: Final = properties

    def start(self) -> None:
        """Attach with the access rights of the owner."""
        try:
            self._node_scope.attach_to(self, self.address, self._principal)
        except AmqpError as error:
            self.end(error)

    # -- what a node does

    def accept(
        self,
        handler: Any,
        *,
        max_message_size: int = 0,
        understands: frozenset[bytes] = ROUTING,
        capabilities: Iterable[str] = (),
        **_: object,
    ) -> None:
        """The node accepts the link."""
        if self.accepted(self.instrumented(handler)):
            self.max_message_size, self.understands = max_message_size, understands
            self._deliveries.link_attached(self)

    def fail(self, error: AmqpError) -> None:
        """Do nothing: one bad message must not stop the others."""

    @property
    def granted(self) -> int:
        """Credit that the node granted and that is not used."""
        return self._credit if self.open else 0

    def grant(self, credit: int) -> None:
        """The node grants credit for `credit` more messages."""
        if self.open:
            self._credit += credit
            self._deliveries.pump()

    def settle(self, delivery: PendingAnswer, outcome: Outcome) -> None:
        """The node settles an event."""
        self._delivery_numbers.pop(delivery, None)
        self._deliveries.on_outcome(delivery, outcome)

    def drop(self, delivery: PendingAnswer) -> None:
        """The node dropped a message that was sent settled."""
        self._delivery_numbers.pop(delivery, None)

    def tag(self, delivery: PendingAnswer) -> bytes:
        """The delivery tag that it would have on a connection."""
        return self._delivery_numbers.get(delivery, 0).to_bytes(8)

    def message_refused(self, error: AmqpError) -> None:
        """Do nothing: its outcome has the error."""

    # -- the deliveries'

    @property
    def credit(self) -> int:
        """See `SendingLink`."""
        return self.granted

    def send(self, data: bytes, waiting: PendingAnswer) -> None:
        """See `SendingLink`."""
        self._credit -= 1
        self._count += 1
        self._delivery_numbers[waiting] = self._count
        self.handler.on_transfer(waiting, data, False)

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """Fail the messages without an outcome."""
        self._delivery_numbers.clear()
        if was_open:
            self.handler.on_detach(error)
        self._deliveries.link_lost(error)
