"""The receiving end of a bridge: what it asks for, and its link to a topic of this gateway (KM-24).

The topic keeps the position in a durable terminus, as it does for any client (KM-11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.amqp.codec.types import Described, Symbol, ValueMap
from gateway.amqp.engine.proton_data import ABSENT
from gateway.amqp.link.handlers import Outgoing, SendContext
from gateway.amqp.link.outcomes import Outcome
from gateway.errors import AmqpError
from gateway.filters.parse.filter_set import SQL
from gateway.filters.position.event_stream import EARLIEST, FILTER_NAME, LATEST, OFFSET
from gateway.forwarding.flow import InFlight, InFlightEvent
from gateway.forwarding.target import BridgeEngine, TargetEnd
from gateway.nodes.internal_link import InternalLink, NothingUnsettled
from gateway.nodes.link import OutgoingMessages
from gateway.principal import GatewayItself, nobody
from gateway.routing.event_annotations import PARTITION, read_event
from gateway.routing.link_context import link_context

if TYPE_CHECKING:
    from gateway.nodes.base import Resolver

_NEVER: Final = 3
"""The expiry policy of a terminus that stays until it is closed (AMQP 3.5.4)."""


class ReadRequest(Protocol):
    """The entry of the policy, as far as the source goes (`policies.model_bridge.Bridge`)."""

    @property
    def name(self) -> str: ...
    @property
    def source(self) -> TargetEnd: ...
    @property
    def durable(self) -> bool: ...
    @property
    def start(self) -> str: ...
    @property
    def filter(self) -> str | None: ...
    @property
    def group(self) -> str | None: ...
    @property
    def partition(self) -> str | None: ...
    @property
    def keep_partitions(self) -> bool: ...


class SourceOwner(Protocol):
    """The bridge."""

    @property
    def valid(self) -> bool: ...
    @property
    def fence(self) -> int: ...
    def soon(self, call: Callable[[], None]) -> object: ...
    def source_stands(self, how: str) -> None: ...
    def source_ended(self, error: AmqpError | None) -> None: ...
    def skipped(self) -> None: ...
    def misplaced(self) -> None: ...


def link_name(scope: str, name: str) -> str:
    """What a bridge's links are called, in every process."""
    return f"bridge-{scope}-{name}"


def filters(wish: ReadRequest, position: str | None) -> ValueMap:
    """The filter set to ask for: the policy's condition, and events after `position`."""
    found: ValueMap = {}
    if wish.filter is not None:
        found[Symbol(SQL)] = Described(Symbol(SQL), wish.filter)
    if position is not None:
        found[Symbol(FILTER_NAME)] = Described(Symbol(FILTER_NAME), {Symbol(OFFSET): Symbol(position)})
    return found


def start(wish: ReadRequest) -> str:
    """Where to begin without a position."""
    return EARLIEST if wish.start == "earliest" else LATEST


class LocalSource(InternalLink[Outgoing]):
    """The receiver that a topic of this gateway sees; see `gateway.amqp.link.link.Link` for what a node uses of it."""

    incoming: Final = False
    failure: Final = None
    most: Final = 0
    user: Final = ""

    def __init__(self, owner: SourceOwner, flow: InFlight, scope: Resolver, wish: ReadRequest) -> None:
        super().__init__(link_context(scope.name), nobody(scope.name))
        self._owner: Final = owner
        self._flow: Final = flow
        self._scope: Final = scope
        self._aim: Final = wish.keep_partitions
        self.engine: Final = BridgeEngine(scope.name)
        self.scope: Final = scope.name
        self.name: Final = link_name(scope.name, wish.name)
        self.address: Final = wish.source.address
        self.offset_group = f"amqp.bridge.{scope.name}.{wish.name}"
        """The Kafka group that shows how far it got."""
        self.fence = owner.fence
        """Greater for every later owner of the bridge: an earlier one cannot take the position back."""
        self.source: Final = ABSENT._replace(
            present=True,
            address=wish.source.address,
            durable=int(wish.durable),
            expiry=_NEVER,
            filter=filters(wish, start(wish)),
        )
        self.target: Final = ABSENT._replace(present=True, address=self.name)
        self.properties: Final = {} if wish.partition is None else {Symbol(PARTITION): Symbol(wish.partition)}
        self.filter_rules = scope.context.filter_rules
        self.left: Final = None
        self.window = 0
        self.unsettled: Final = NothingUnsettled()
        """The flow has what is unsettled; `unsettled_bytes` is its size."""
        self.unsettled_bytes = 0
        self._told = False

    def start(self) -> None:
        """Attach; the bridge hears `source_stands` or `source_ended`."""
        try:
            self._scope.attach_to(self, self.address, GatewayItself(self.scope, "bridge", self.address))
        except AmqpError as error:
            self.end(error)

    @property
    def announcement_counts(self) -> bool:
        """A bridge shows its target no annotations of response routing."""
        return False

    # -- what a node does

    def accept(self, handler: Any, *, durable: bool = False, **_: object) -> None:
        """The node takes the link."""
        if not self.accepted(handler):
            return
        self.unsettled_bytes = 0
        self._owner.source_stands("position kept" if durable else "no position kept")
        self._flow.source_open(self)

    @property
    def credit(self) -> int:
        """What may be sent now; nothing once another process may own the bridge."""
        return self.window if self._owner.valid else 0

    keeps_too_much = False

    def keep(self, size: int) -> None:
        """What comes back is of a few events: a flow has no more on its way."""

    def send(self, data: bytes, context: SendContext, settled: bool = False) -> None:
        """One event."""
        self.window -= 1
        self.unsettled_bytes += len(data)
        self._flow.came(self, context, read_event(data, aim=self._aim))
        self._flow.pump()

    def send_all(self, messages: OutgoingMessages) -> None:
        """Several events, each its own context."""
        self.window -= len(messages)
        for message in messages:
            self.unsettled_bytes += len(message[0])
            self._flow.came(self, message, read_event(message[0], aim=self._aim))
        self._flow.pump()

    def take_unsettled(self) -> list[SendContext]:
        """The flow knows what is under way."""
        return []

    def drained(self) -> None:
        """We never drain it."""

    # -- what the flow does

    @property
    def granted(self) -> int:
        """Events asked for that have not come."""
        return self.window

    def ask(self, credit: int) -> None:
        """Take `credit` more events; the node hears of it in the next turn, for it may be sending just now."""
        self.window += credit
        if not self._told:
            self._told = True
            self._owner.soon(self._credited)

    def _credited(self) -> None:
        self._told = False
        if self.open:
            self.handler.on_credit()

    def settle(self, item: InFlightEvent, outcome: Outcome) -> None:
        """The final word on an event."""
        if self.open:
            self.unsettled_bytes -= len(item.origin[0])
            self.handler.on_outcome(item.origin, outcome)

    # -- the end

    def positions(self) -> dict[int, int]:
        """Where the link reads next, per partition."""
        return dict(self.handler.positions()) if self.open else {}

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """The terminus stays."""
        if was_open:
            self._flow.source_gone()
            self.handler.on_detach(error)
        self._owner.source_ended(error)
