"""Delivery of a manager's subscriptions in this process: connects readers, outlets and sinks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.entry import Letter
from bridges.cloudevents.delivery.gate import SinkGate, SinkGates
from bridges.cloudevents.delivery.mark import StreamPosition, dump_mark
from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.delivery.outlet import OutletRules
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.delivery.status import SubscriptionStatus
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.reading.judge import EventOf, Judge
from bridges.cloudevents.reading.known import Known, mark_of
from bridges.cloudevents.reading.ledger import bucket_of
from bridges.cloudevents.reading.letters import Letterbox
from bridges.cloudevents.reading.push import Push, PushVersion
from bridges.cloudevents.reading.readings import FanReadings
from bridges.cloudevents.reading.slices import Slices
from bridges.cloudevents.reading.starts import Starts
from bridges.cloudevents.reading.subscription import PushedSubscription, SinkMaker
from bridges.cloudevents.reading.turns import PushTurns
from bridges.kafka.bridge import ClusterBridge
from bridges.kafka.tap import TopicLog
from gateway.errors import AmqpError
from gateway.observability.logs import get_logger
from gateway.state.leases.manager import Leases
from gateway.state.termini.store import Termini
from gateway.tasks import Supervisor
from policies.rules import KafkaRoute

__all__ = ["Fan", "FanRules", "FanShared", "PushedSubscription", "SinkMaker"]
LOG: Final = get_logger(__name__)
_EVERY: Final = 0.1
"""Seconds between two writes of marks."""
_LATER: Final = 100
"""Maximum number of marks per write for subscriptions that advanced without sending an event."""
_BEAT: Final = 20
"""Number of writes after which the owner of every record is checked, even without changes."""
_CLOSE: Final = 2.0
"""Seconds that attempts may take when the gateway shuts down."""
_BEHIND: Final = 2.0
"""Seconds that `status` waits for Kafka."""


class FanRules(NamedTuple):
    """The settings of the policy for a fan; times in seconds."""

    scope: str
    manager: str
    streams: Mapping[str, KafkaRoute]
    """By address."""
    slices: int = 1
    refusals: int = 20
    suspend_after: float = 5 * 86400
    retry_after: float = 3600
    hold: int = 64 * 1024 * 1024
    """Maximum size of the events in memory of all subscriptions together, in bytes."""


class FanShared(NamedTuple):
    """Services of the gateway that its fans share."""

    clusters: Mapping[str, ClusterBridge]
    leases: Leases
    termini: Termini
    supervisor: Supervisor


class Fan:
    """Delivers the subscriptions of one manager; used on the event loop only."""

    def __init__(
        self, rules: FanRules, shared: FanShared, make_sink: SinkMaker, event_of: EventOf, metrics: ManagerMetrics
    ) -> None:
        self._rules = rules
        self._shared: Final = shared
        self._make_sink: Final = make_sink
        self.event_in: Final = event_of
        self.judge: Final = Judge(event_of)
        self.turns: Final = PushTurns()
        self.metrics: Final = metrics
        self.supervisor: Final = shared.supervisor
        self._known: Final[dict[str, Known]] = {}
        self._pushes: Final[dict[str, Push]] = {}
        self.readings: Final = FanReadings(self._known, self._pushes, self.judge)
        self._dirty: Final[dict[Push, None]] = {}
        self._moved: Final[dict[Push, None]] = {}
        self._locks: Final[dict[str, asyncio.Lock]] = {}
        self._gates: Final = SinkGates()
        self._bytes = 0
        self._scarce = False
        self._letters: Final = Letterbox(shared.clusters)
        self._slices = self._make_slices(rules)
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def _make_slices(self, rules: FanRules) -> Slices:
        shared, name = self._shared, f"{rules.scope}/{rules.manager}"
        return Slices(name, rules.slices, shared.leases, shared.termini, shared.supervisor, self)

    def change(self, rules: FanRules) -> None:
        """Continue under another policy; the manager then calls `put` again for its subscriptions."""
        before, self._rules = self._rules, rules
        if before.slices != rules.slices:
            running = bool(self._tasks)
            for task in self._tasks:
                task.cancel()
            self._slices = self._make_slices(rules)
            if running:
                self.start()

    def start(self) -> None:
        """Start delivery; `put` may be called before and after."""
        name = f"{self._rules.scope}/{self._rules.manager}"
        for cluster in self._clusters():
            cluster.charge(self._held)
        slices = self.supervisor.keep(self._slices.run, f"slices:{name}")
        self._tasks = slices, self.supervisor.keep(self._write, f"marks:{name}")

    def _clusters(self) -> list[ClusterBridge]:
        """The cluster whose counters include the events in memory: that of the first stream."""
        names = [route.cluster for route in self._rules.streams.values()]
        return [self._shared.clusters[name] for name in names[:1]]

    # -- from the manager

    async def put(
        self,
        subscription: PushedSubscription,
        revision: int,
        starts: Starts,
        hold: Reason | None = None,
        edition: int | None = None,
    ) -> None:
        """Deliver a subscription, or replace it with a new version; returns when the version is in force here.

        Nothing is sent to an older version's sink after that. The position is kept if `starts.incarnation` is the same.
        `hold` is the reason for sending nothing (CONSENT, POLICY, CREDENTIAL, OPERATOR) until the next `put`.
        An update (a greater edition; default: the revision) ends a suspension.
        """
        async with self._lock(subscription.id):
            written = revision if edition is None else edition
            self._known[subscription.id] = Known(subscription, revision, starts, hold, written)
            await self._begin(subscription.id)

    async def remove(self, id: str) -> None:
        """Stop its delivery and delete its position; returns when nothing is sent to its sink any more."""
        async with self._lock(id):
            self._known.pop(id, None)
            await self._end(id)
            ledger = self._slices.ledger(id)
            if ledger is not None:
                ledger.remove(id)
        self._locks.pop(id, None)

    async def status(self, id: str) -> SubscriptionStatus | None:
        """Its status; None if it is unknown here."""
        known, push = self._known.get(id), self._pushes.get(id)
        if known is None:
            return None
        if push is None:
            state = DeliveryState.ACTIVE if known.hold is None else known.hold.state
            return SubscriptionStatus(state, reason=known.hold)
        streams, failure = push.streams(), push.outlet.last_failure
        return SubscriptionStatus(
            push.state,
            push.since,
            push.outlet.reason,
            "" if failure is None or push.state is DeliveryState.ACTIVE else failure.reason,
            push.next_attempt,
            push.version.revision,
            True,
            push.counts.by_name(),
            await self._behind(streams),
            push.outlet.oldest,
            {
                address: {number: position.committed for number, position in at.positions.items()}
                for address, at in streams.items()
            },
        )

    async def _behind(self, streams: Mapping[str, StreamPosition]) -> int | None:
        """The number of offsets that are not done; None if Kafka does not answer in time."""
        total = 0
        try:
            async with asyncio.timeout(_BEHIND):
                for address, at in streams.items():
                    log = self.log(address)
                    if log is not None and at.positions:
                        total += await log.behind({number: each.next for number, each in at.positions.items()})
                        total += sum(len(each.undone) for each in at.positions.values())
        except (AmqpError, TimeoutError):
            return None
        return total

    async def resume(self, id: str) -> bool:
        """End a suspension; False if it is not suspended, or another gateway delivers it."""
        push = self._pushes.get(id)
        if push is None or push.version.hold is not None or not push.resume():
            return False
        LOG.info("subscription resumed", id=id)
        return True

    async def send_test(self, id: str, event: CloudEvent) -> Answer | None:
        """Send an event that is not in the log; None if another gateway delivers it, or it has no sink now."""
        push = self._pushes.get(id)
        return None if push is None else await push.send_test(event)

    async def close(self) -> None:
        """Wait briefly for answers, write the positions, and stop."""
        await self._close_all(list(self._pushes), _CLOSE)
        await self._flush()
        for cluster in self._shared.clusters.values():
            cluster.discharge(self._held)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=_CLOSE) if self._tasks else None

    # -- one subscription

    def _lock(self, id: str) -> asyncio.Lock:
        return self._locks.setdefault(id, asyncio.Lock())

    async def _begin(self, id: str) -> None:
        """Deliver the known version from the stored position; the caller holds its lock."""
        counts = await self._end(id)
        known, ledger = self._known.get(id), self._slices.ledger(id)
        if known is None or ledger is None:
            return
        version = PushVersion(known.subscription, known.revision, self._outlet_rules(known), known.hold, known.edition)
        mark = mark_of(known, ledger.mark(id))
        push = self._pushes[id] = Push(self, version, mark, self._gate(known.subscription), counts)
        self.readings.follow(known.subscription, known.starts.streams, counts)
        ledger.put(id, dump_mark(mark))
        push.open(self._make_sink(known.subscription, push))

    async def _end(self, id: str, patience: float | None = None) -> DeliveryCounts:
        """Stop its delivery and update its mark; returns its counts."""
        push = self._pushes.get(id)
        if push is None:
            return DeliveryCounts()
        await (push.close() if patience is None else push.close(patience))
        if self._pushes.get(id) is push:
            self._note(push)
            del self._pushes[id]
        return push.counts

    def _outlet_rules(self, known: Known) -> OutletRules:
        rules, subscription = self._rules, known.subscription
        limit = subscription.config.max_events
        return OutletRules(subscription.delivery, rules.refusals, rules.suspend_after, limit)

    def _gate(self, subscription: PushedSubscription) -> SinkGate:
        sink = subscription.sink
        place = f"{subscription.protocol} {sink.origin if sink.hosts else sink.text}"
        return self._gates.gate(
            subscription.owner, place, f"{place} {sink.path}", subscription.delivery, self._rules.retry_after
        )

    # -- from the slices

    async def gained(self, buckets: Collection[int]) -> None:
        """See `SlicesOwner`."""
        for id in self._in(buckets, self._known):
            async with self._lock(id):
                if id not in self._pushes:
                    await self._begin(id)

    async def given(self, buckets: Collection[int]) -> None:
        """See `SlicesOwner`."""
        await self._close_all(self._in(buckets, self._pushes), None)

    def lost(self, buckets: Collection[int]) -> None:
        """See `SlicesOwner`."""
        for id in self._in(buckets, self._pushes):
            push = self._pushes.pop(id)
            self._dirty.pop(push, None)
            self._moved.pop(push, None)
            push.end()
            self.supervisor.start(push.close(0.0), "push-end")

    @staticmethod
    def _in(buckets: Collection[int], ids: Collection[str]) -> list[str]:
        wanted = set(buckets)
        return [id for id in ids if bucket_of(id) in wanted]

    async def _close_all(self, ids: Collection[str], patience: float | None) -> None:
        async def end(id: str) -> None:
            async with self._lock(id):
                await self._end(id, patience)

        await asyncio.gather(*map(end, ids))

    # -- from the pushes

    @property
    def valid(self) -> bool:
        """See `PushOwner`."""
        return self._slices.valid

    def log(self, address: str) -> TopicLog | None:
        """See `PushOwner`."""
        route = self._rules.streams.get(address)
        return None if route is None else self._shared.clusters[route.cluster].log(route)

    def bury(self, push: Push, letter: Letter) -> None:
        """See `PushOwner`."""
        route = self._rules.streams.get(letter.place.address)
        done = partial(push.buried, letter.place)
        _report(push, letter, copied=route is not None and route.reading.dead_letter is not None)
        if route is None:
            done(False)
        else:
            self._letters.bury(route, push.subscription, letter, done, lambda: not push.closed)

    def changed(self, push: Push) -> None:
        """See `PushOwner`."""
        self._dirty[push] = None

    def moved(self, push: Push) -> None:
        """See `PushOwner`."""
        self._moved[push] = None

    def restart(self, push: Push) -> None:
        """See `PushOwner`."""
        push.end()
        self.supervisor.start(self._restart(push), "push-restart")

    async def _restart(self, push: Push) -> None:
        id = push.subscription.id
        async with self._lock(id):
            if self._pushes.get(id) is push:
                await self._begin(id)

    # -- writing

    async def _write(self) -> None:
        beat = 0
        while True:
            await asyncio.sleep(_EVERY)
            beat = (beat + 1) % _BEAT
            self._bound()
            await self._flush({bucket_of(id) for id in self._pushes} if not beat else ())

    async def _flush(self, beats: Collection[int] = ()) -> None:
        for push in [*self._dirty, *islice(self._moved, _LATER)]:
            self._note(push)
        await self._slices.write(beats)

    def _note(self, push: Push) -> None:
        """Update its mark in the ledger."""
        self._dirty.pop(push, None)
        self._moved.pop(push, None)
        id = push.subscription.id
        ledger = self._slices.ledger(id)
        if ledger is not None and self._pushes.get(id) is push:
            ledger.put(id, dump_mark(push.mark()))

    def _held(self) -> int:
        """Bytes in memory at the last count."""
        return self._bytes

    def _bound(self) -> None:
        """Above the limit of memory, divide the limit among the outlets that hold events."""
        holders = [push for push in self._pushes.values() if push.outlet.bytes]
        self._bytes = sum(push.outlet.bytes for push in holders)
        if self._bytes > self._rules.hold:
            self._scarce = True
            for push in self._pushes.values():
                push.outlet.allow(self._rules.hold // (2 * len(holders)))
        elif self._scarce and self._bytes < self._rules.hold // 4:
            self._scarce = False
            for push in self._pushes.values():
                push.outlet.allow(self._rules.hold)
                push.wake()


def _report(push: Push, letter: Letter, *, copied: bool) -> None:
    """Log refused events number 1, 2, 4, 8 and so on."""
    count = push.counts.refused
    if count & (count - 1) == 0:
        LOG.warning(
            "subscription's sink refuses an event",
            id=push.subscription.id,
            stream=letter.place.address,
            partition=letter.place.partition,
            offset=letter.place.offset,
            reason=letter.answer.reason,
            refused=count,
            dead_letter=copied,
        )
