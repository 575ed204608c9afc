"""The receiving end of a bridge at a topic of this gateway, and what both kinds of sources request (KM-24).

The topic stores the position in a durable terminus, as for any client (KM-11).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.amqp.codec.types import Described, Symbol, ValueMap
from gateway.amqp.link.handlers import Outgoing, SendContext
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.proton.proton_data import ABSENT
from gateway.errors import AmqpError
from gateway.filters.parse.filter_set import SQL
from gateway.filters.position.event_stream import EARLIEST, FILTER_NAME, LATEST, OFFSET
from gateway.forwarding.flow import InFlight, InFlightEvent
from gateway.forwarding.target import BridgeEngine, TargetEnd
from gateway.links.internal_link import InternalLink, NothingUnsettled
from gateway.links.link import OutgoingMessages
from gateway.links.link_context import link_context
from gateway.principal import GatewayItself, nobody
from gateway.routing.event_annotations import PARTITION, read_event

if TYPE_CHECKING:
    from gateway.nodes.base import Resolver

_NEVER: Final = 3
"""The expiry policy of a terminus that stays until it is closed (AMQP 3.5.4)."""


class BridgeReading(Protocol):
    """The part of a bridge's policy entry that is about its source (`BridgeEntry`)."""

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
    def source_attached(self, how: str) -> None: ...
    def source_ended(self, error: AmqpError | None) -> None: ...
    def skipped(self) -> None: ...
    def misplaced(self) -> None: ...


def link_name(scope: str, name: str) -> str:
    """The name of a bridge's links, the same in every process."""
    return f"bridge-{scope}-{name}"


def filters(entry: BridgeReading, position: str | None) -> ValueMap:
    """The filter set to request: the filter of the policy, and events after `position`."""
    found: ValueMap = {}
    if entry.filter is not None:
        found[Symbol(SQL)] = Described(Symbol(SQL), entry.filter)
    if position is not None:
        found[Symbol(FILTER_NAME)] = Described(Symbol(FILTER_NAME), {Symbol(OFFSET): Symbol(position)})
    return found


def start(entry: BridgeReading) -> str:
    """The position to start at if none is stored."""
    return EARLIEST if entry.start == "earliest" else LATEST


class LocalSource(InternalLink[Outgoing]):
    """The receiver as a topic of this gateway sees it (`gateway.links.link.OutgoingLink`)."""

    incoming: Final = False
    failure: Final = None
    most: Final = 0
    user: Final = ""

    def __init__(self, owner: SourceOwner, flow: InFlight, scope: Resolver, entry: BridgeReading) -> None:
        super().__init__(link_context(scope.name), nobody(scope.name))
        self._owner: Final = owner
        self._flow: Final = flow
        self._scope: Final = scope
        self._keep_partitions: Final = entry.keep_partitions
        self.engine: Final = BridgeEngine(scope.name)
        self.scope: Final = scope.name
        self.name: Final = link_name(scope.name, entry.name)
        self.address: Final = entry.source.address
        self.offset_group = f"amqp.bridge.{scope.name}.{entry.name}"
        """The Kafka group that shows its position."""
        self.fence = owner.fence
        """Greater for every later owner of the bridge, so that an earlier one cannot overwrite the position."""
        self.source: Final = ABSENT._replace(
            present=True,
            address=entry.source.address,
            durable=int(entry.durable),
            expiry=_NEVER,
            filter=filters(entry, start(entry)),
        )
        self.target: Final = ABSENT._replace(present=True, address=self.name)
        self.properties: Final = {} if entry.partition is None else {Symbol(PARTITION): Symbol(entry.partition)}
        self.filter_rules = scope.context.filter_rules
        self.left: Final = None
        self.window = 0
        self.unsettled: Final = NothingUnsettled()
        """`InFlight` has the unsettled events; `unsettled_bytes` is their size."""
        self.unsettled_bytes = 0
        self._notified = False

    def start(self) -> None:
        """Attach; `source_attached` or `source_ended` follows."""
        try:
            self._scope.attach_to(self, self.address, GatewayItself(self.scope, "bridge", self.address))
        except AmqpError as error:
            self.end(error)

    @property
    def announcement_counts(self) -> bool:
        """False: a bridge sends no annotations of response routing to its target."""
        return False

    # -- for the node

    def accept(self, handler: Any, *, durable: bool = False, **_: object) -> None:
        """The node accepts the link."""
        if not self.accepted(handler):
            return
        self.unsettled_bytes = 0
        self._owner.source_attached("position kept" if durable else "no position kept")
        self._flow.source_open(self)

    @property
    def credit(self) -> int:
        """Events that may be sent now; none if another process may own the bridge."""
        return self.window if self._owner.valid else 0

    keeps_too_much = False

    def keep(self, size: int) -> None:
        """Nothing: only the few events in flight can come back."""

    def send(self, data: bytes, context: SendContext, settled: bool = False) -> None:
        """One event."""
        self.window -= 1
        self.unsettled_bytes += len(data)
        self._flow.came(self, context, read_event(data, keep_partition=self._keep_partitions))
        self._flow.pump()

    def send_all(self, messages: OutgoingMessages) -> None:
        """Several events, each its own context."""
        self.window -= len(messages)
        for message in messages:
            self.unsettled_bytes += len(message[0])
            self._flow.came(self, message, read_event(message[0], keep_partition=self._keep_partitions))
        self._flow.pump()

    def take_unsettled(self) -> list[SendContext]:
        """None: `InFlight` has the unfinished events."""
        return []

    def drained(self) -> None:
        """Nothing: this link is never drained."""

    # -- for `InFlight`

    @property
    def granted(self) -> int:
        """Requested events that have not come."""
        return self.window

    def ask(self, credit: int) -> None:
        """Request `credit` more events; the node is notified in the next turn, because it may be sending now."""
        self.window += credit
        if not self._notified:
            self._notified = True
            self._owner.soon(self._credited)

    def _credited(self) -> None:
        self._notified = False
        if self.open:
            self.handler.on_credit()

    def settle(self, item: InFlightEvent, outcome: Outcome) -> None:
        """Settle an event with its final outcome."""
        if self.open:
            self.unsettled_bytes -= len(item.origin[0])
            self.handler.on_outcome(item.origin, outcome)

    # -- the end

    def positions(self) -> dict[int, int]:
        """The next offset to read, per partition."""
        return dict(self.handler.positions()) if self.open else {}

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """The link has ended; the terminus stays."""
        if was_open:
            self._flow.source_gone()
            self.handler.on_detach(error)
        self._owner.source_ended(error)
