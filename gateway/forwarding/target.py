"""The sending end of a bridge: the node at its target sees the gateway as a sender."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.amqp.codec.types import ValueMap
from gateway.amqp.link.config import EngineConfig, PeerInfo
from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.outcomes import Outcome, from_node
from gateway.amqp.message.durable import durable
from gateway.amqp.message.hop import ROUTING, may_be_annotated, only
from gateway.amqp.message.response_support import SUPPORTED, annotated
from gateway.amqp.proton.proton_data import ABSENT
from gateway.errors import DETACH_FORCED, NOT_IMPLEMENTED, AmqpError
from gateway.forwarding.flow import InFlight, InFlightEvent
from gateway.links.internal_link import InternalLink
from gateway.links.link_context import link_context
from gateway.links.reject import reject_delivery
from gateway.principal import Container, GatewayItself, Requester, nobody

if TYPE_CHECKING:
    from gateway.links.link import PolicyVerdict
    from gateway.nodes.base import Remotes, Resolver


class TargetEnd(Protocol):
    """The policy's key for one end (`BridgeEnd`)."""

    @property
    def connector(self) -> str | None: ...
    @property
    def address(self) -> str: ...


class TargetOwner(Protocol):
    """The bridge."""

    def target_attached(self) -> None: ...
    def target_ended(self, error: AmqpError | None) -> None: ...
    def message_refused(self, error: AmqpError) -> None: ...


def _author(scope: str, source: TargetEnd) -> Requester:
    """The requester of the events: the container that they come from; unknown for a topic."""
    return nobody(scope) if source.connector is None else Container(scope, source.connector)


class BridgeEngine:
    """The engine of a link whose peer is the gateway itself (`gateway.links.link.LinkEngine`)."""

    remote_container: Final = "bridge"
    opened: Final = True
    blocked: Final = False
    closed: Final = False
    offered: Final = frozenset[str]()
    desired: Final = frozenset[str]()

    def __init__(self, scope: str) -> None:
        self.config: Final = EngineConfig(container_id="")
        self.peer: Final = PeerInfo(scope=scope, user="")


class ForwardingTarget(InternalLink[Incoming]):
    """The sender as the node sees it (`gateway.links.link.IncomingLink`)."""

    incoming: Final = True
    rejects: Final = True
    user: Final = ""

    def __init__(
        self, owner: TargetOwner, flow: InFlight, scope: Resolver, name: str, end: TargetEnd, source: TargetEnd
    ) -> None:
        super().__init__(link_context(scope.name), _author(scope.name, source))
        self._owner: Final = owner
        self._flow: Final = flow
        self._scope: Final = scope
        self._end: Final = end
        self.engine: Final = BridgeEngine(scope.name)
        self.scope: Final = scope.name
        self.name: Final = name
        self.address: Final = end.address
        self.source: Final = ABSENT._replace(present=True, address=name)
        self.target: Final = ABSENT._replace(present=True, address=end.address)
        self.properties: Final[ValueMap] = {}
        self._announced = False
        self._connector: Remotes | None = None

    def start(self) -> None:
        """Attach; `target_attached` or `target_ended` follows."""
        try:
            if self._end.connector is None:
                self._scope.attach_to(self, self.address, GatewayItself(self.scope, "bridge", self.address))
                return
            self._connector = connector = self._scope.connectors.get(self._end.connector)
            if connector is None:
                raise AmqpError(DETACH_FORCED, f"connector {self._end.connector} is not in the policy")
            connector.relay(self._end.address, self._scope.context.transform_for).attach(self)
        except AmqpError as error:
            self.end(error)

    # -- for the node

    def accept(
        self,
        handler: Any,
        *,
        max_message_size: int = 0,
        capabilities: Iterable[str] = (),
        understands: frozenset[bytes] = ROUTING,
        **_: object,
    ) -> None:
        """The node accepts the link."""
        if not self.accepted(self.instrumented(handler)):
            return
        self.max_message_size, self._announced = max_message_size, SUPPORTED in capabilities
        self.understands = understands
        self._flow.target_open(self._give)
        self._owner.target_attached()

    def fail(self, error: AmqpError) -> None:
        """Nothing: a rejected message must not end the link."""

    @property
    def away(self) -> bool:
        """Whether the container of its connector is not connected; an open link stays open meanwhile."""
        return self._connector is not None and self._connector.engine is None

    @property
    def granted(self) -> int:
        """Credit of the node that is not used yet."""
        return self._flow.room if self.open else 0

    def grant(self, credit: int) -> None:
        """The node grants `credit` more messages."""
        if self.open:
            self._flow.credited(credit)

    def settle(self, delivery: InFlightEvent, outcome: Outcome) -> None:
        """The node's outcome of an event."""
        if self.open:
            self._flow.outcome(delivery, from_node(outcome, self.behind))

    def drop(self, delivery: InFlightEvent) -> None:
        """Nothing: only pre-settled messages are dropped, and there are none."""

    def tag(self, delivery: InFlightEvent) -> bytes:
        return delivery.serial.to_bytes(8)

    def message_refused(self, error: AmqpError) -> None:
        self._owner.message_refused(error)

    # -- from the bridge

    def _give(self, item: InFlightEvent) -> None:
        data = only(item.event.data, self.understands) if may_be_annotated(item.event.data) else item.event.data
        if not self._announced and annotated(data):
            text = "the target of this bridge does not support response annotations"
            reject_delivery(self, item, AmqpError(NOT_IMPLEMENTED, text), settled=False)
        else:  # what is in a log is still there after a restart of the container, too
            self.handler.on_transfer(item, data if self._end.connector is None else durable(data), False)

    def policy_changed(self, verdict: PolicyVerdict) -> None:
        """After a reload: the connector may have been replaced, too."""
        if self._end.connector is not None and self._scope.connectors.get(self._end.connector) is not self._connector:
            self.end(AmqpError(DETACH_FORCED, "the connector has changed"))
        else:
            super().policy_changed(verdict)

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """The link has ended; `InFlight` sends unfinished events again."""
        if was_open:
            self._flow.target_gone()
            self.handler.on_detach(error)
        self._owner.target_ended(error)
