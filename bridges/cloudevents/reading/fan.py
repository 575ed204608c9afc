"""The delivery of a manager's subscriptions in this process: reading, outlets and sinks joined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.delivery.status import SubscriptionStatus
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.reading.starts import Starts
from bridges.cloudevents.sinks.port import Sink, SinkListener
from bridges.cloudevents.subscription.model import DeliverySettings, SinkProtocol, SinkUri, SubscriptionConfig
from bridges.kafka.bridge import ClusterBridge
from bridges.kafka.records.record import KafkaRecord
from gateway.state.leases.manager import Leases
from gateway.state.termini.store import Termini
from gateway.tasks import Supervisor
from policies.rules import KafkaRoute


class SubscriptionFilter(Protocol):
    """What of an event filter delivery uses."""

    def matches(self, event: CloudEvent) -> bool: ...


class PushedSubscription(Protocol):
    """What delivery uses of a subscription (`subscription.subscription.Subscription`)."""

    @property
    def id(self) -> str: ...
    @property
    def owner(self) -> str: ...
    @property
    def protocol(self) -> SinkProtocol: ...
    @property
    def sink(self) -> SinkUri: ...
    @property
    def filter(self) -> SubscriptionFilter: ...
    @property
    def config(self) -> SubscriptionConfig: ...
    @property
    def delivery(self) -> DeliverySettings: ...


class SinkMaker(Protocol):
    """Makes the sink of a subscription; `sinks.open.SinkFactory.open` is one."""

    def __call__(self, subscription: PushedSubscription, listener: SinkListener) -> Sink: ...


class FanRules(NamedTuple):
    """What of the policy a fan needs; times in seconds."""

    scope: str
    manager: str
    streams: Mapping[str, KafkaRoute]
    """By address."""
    slices: int = 1
    refusals: int = 20
    suspend_after: float = 5 * 86400
    retry_after: float = 3600
    hold: int = 64 * 1024 * 1024
    """Bytes of events that all subscriptions together have in memory."""


class FanShared(NamedTuple):
    """What the gateway shares with its fans."""

    clusters: Mapping[str, ClusterBridge]
    leases: Leases
    termini: Termini
    supervisor: Supervisor


EventOf = Callable[[KafkaRecord, str], CloudEvent | None]
"""`events.event.event_of`: a record of the stream at an address; None: no event."""


class Fan:
    """The subscriptions of one manager; used on the loop."""

    def __init__(self, rules: FanRules, shared: FanShared, make_sink: SinkMaker, event_of: EventOf) -> None:
        self._rules: Final = rules
        self._shared: Final = shared

    def change(self, rules: FanRules) -> None:
        """Go on under another policy."""

    def start(self) -> None:
        """Deliver; subscriptions may be put before and after."""

    async def put(
        self, subscription: PushedSubscription, revision: int, starts: Starts, hold: Reason | None = None
    ) -> None:
        """Deliver a subscription, or go on with another version of it; returns when it is in force here.

        After it nothing goes to an older version's sink. Its position is kept where `starts.incarnation` is the same.
        `hold`: send nothing, for this reason (CONSENT, POLICY, CREDENTIAL, OPERATOR), until it is put again.
        An update (a greater revision) ends a suspension.
        """

    async def remove(self, id: str) -> None:
        """Deliver it no more and forget its position; returns when nothing goes to its sink any more."""

    async def status(self, id: str) -> SubscriptionStatus | None:
        """What is known of it; None: it was never put here."""

    async def resume(self, id: str) -> bool:
        """End a suspension; False: it is not suspended, or another gateway delivers it."""
        return False

    async def send_test(self, id: str, event: CloudEvent) -> Answer | None:
        """Send an event that is none of the log's, once; None: another gateway delivers it, or it has no sink now."""

    async def close(self) -> None:
        """Wait a little for answers, write the positions, and end."""
