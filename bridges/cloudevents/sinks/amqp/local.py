"""The sender to an address of the scope: to its node it looks as if the subscription's owner had attached."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from bridges.cloudevents.sinks.amqp.deliveries import Deliveries, Waiting
from gateway.amqp.codec.types import ValueMap
from gateway.amqp.engine.config import EngineConfig, PeerInfo
from gateway.amqp.engine.proton_data import ABSENT
from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.message.hop import ROUTING
from gateway.errors import AmqpError
from gateway.nodes.internal_link import InternalLink
from gateway.principal import User
from gateway.routing.link_context import link_context

if TYPE_CHECKING:
    from gateway.nodes.base import Resolver


class SubscriptionEngine:
    """What nodes read of a link's engine (`gateway.nodes.link.LinkEngine`)."""

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
    """One link to the node; see `gateway.amqp.link.link.Link` for what a node uses of it."""

    incoming: Final = True
    rejects: Final = True

    def __init__(self, scope: Resolver, owner: str, address: str, properties: ValueMap, deliveries: Deliveries) -> None:
        user = User(scope.name, owner)
        super().__init__(link_context(scope.name), user)
        self._principal: Final = user
        self._node_scope: Final = scope
        self._deliveries: Final = deliveries
        self._room = 0
        self._numbers: Final[dict[Waiting, int]] = {}
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
        """Attach, with the rights of the owner."""
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
        """The node takes the link."""
        if self.accepted(self.instrumented(handler)):
            self.max_message_size, self.understands = max_message_size, understands
            self._deliveries.open(self)

    def fail(self, error: AmqpError) -> None:
        """One bad message must not keep the others from being sent."""

    @property
    def granted(self) -> int:
        """What the node has granted and not got yet."""
        return self._room if self.open else 0

    def grant(self, credit: int) -> None:
        """The node takes `credit` more messages."""
        if self.open:
            self._room += credit
            self._deliveries.pump()

    def settle(self, delivery: Waiting, outcome: Outcome) -> None:
        """The node's word on an event."""
        self._numbers.pop(delivery, None)
        self._deliveries.outcome(delivery, outcome)

    def drop(self, delivery: Waiting) -> None:
        """The node has dropped a message that was sent settled."""
        self._numbers.pop(delivery, None)

    def tag(self, delivery: Waiting) -> bytes:
        """What the delivery would be called on a wire."""
        return self._numbers.get(delivery, 0).to_bytes(8)

    def message_refused(self, error: AmqpError) -> None:
        """Its outcome says so."""

    # -- the deliveries'

    @property
    def credit(self) -> int:
        """See `SendingLink`."""
        return self.granted

    def send(self, data: bytes, waiting: Waiting) -> None:
        """See `SendingLink`."""
        self._room -= 1
        self._count += 1
        self._numbers[waiting] = self._count
        self.handler.on_transfer(waiting, data, False)

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """What has no outcome yet is lost."""
        self._numbers.clear()
        if was_open:
            self.handler.on_detach(error)
        self._deliveries.gone(error)
