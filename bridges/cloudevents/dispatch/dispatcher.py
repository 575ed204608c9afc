"""Delivery of a manager's subscriptions in this process: connects readers, queues and sinks."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from functools import partial
from itertools import islice
from typing import Final

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.checkpoint import DeliveryCheckpoint, dump_checkpoint, with_progress
from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.entry import DeadLetter
from bridges.cloudevents.delivery.gate import SinkGate, SinkGates
from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.delivery.queue_settings import QueueSettings
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.delivery.status import SubscriptionStatus
from bridges.cloudevents.dispatch.dead_letters import DeadLetterWriter, log_refusal
from bridges.cloudevents.dispatch.group_offsets import GroupOffsets
from bridges.cloudevents.dispatch.interface import DeliverableSubscription, OpenSink, SubscriptionVersion
from bridges.cloudevents.dispatch.memory_limit import MemoryLimit
from bridges.cloudevents.dispatch.observer import DeliveryObserver
from bridges.cloudevents.dispatch.registration import RegisteredSubscription, starting_checkpoint
from bridges.cloudevents.dispatch.scheduler import StepScheduler
from bridges.cloudevents.dispatch.settings import DispatcherServices, DispatcherSettings
from bridges.cloudevents.dispatch.slices import SliceOwnership
from bridges.cloudevents.dispatch.state_counts import CountedState, StateCounts
from bridges.cloudevents.dispatch.statuses import local_status, remote_status
from bridges.cloudevents.dispatch.stored.by_bucket import ByBucket
from bridges.cloudevents.dispatch.stored.checkpoint_record import APPLIED
from bridges.cloudevents.dispatch.stored.remote_records import RemoteRecords
from bridges.cloudevents.dispatch.worker import DeliveryWorker
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.reading.filter_evaluator import EventOf, SharedFilterEvaluator
from bridges.cloudevents.reading.shared_tail import SharedTails
from bridges.cloudevents.reading.start_offsets import StartOffsets
from bridges.kafka.bridge import ClusterBridge
from bridges.kafka.tap import TopicLog
from gateway.observability.logs import get_logger
from gateway.tasks import KeyedLocks, TimeSlice

LOG: Final = get_logger(__name__)
_WRITE_INTERVAL: Final = 0.1
"""Seconds between two writes of checkpoints."""
_MAX_ADVANCED: Final = 100
"""Maximum number of checkpoints per write for subscriptions that advanced without sending an event."""
_WRITES_PER_OWNER_CHECK: Final = 20
"""Number of writes after which the owner of every record is checked, even without changes."""
_CLOSE_GRACE: Final = 2.0
"""Seconds that attempts may take when the gateway shuts down."""


class SubscriptionDispatcher:
    """Delivers the subscriptions of one manager; used on the event loop only."""

    def __init__(
        self,
        settings: DispatcherSettings,
        services: DispatcherServices,
        open_sink: OpenSink,
        event_of: EventOf,
        metrics: ManagerMetrics,
    ) -> None:
        self._settings = settings
        self._services: Final = services
        self._open_sink: Final = open_sink
        self.event_of: Final = event_of
        self.filters: Final = SharedFilterEvaluator(event_of)
        self.scheduler: Final = StepScheduler()
        self.metrics: Final = metrics
        self.supervisor: Final = services.supervisor
        self.tails: Final = SharedTails(
            event_of, self.filters.readers_of, self.scheduler.add, services.supervisor.attempt
        )
        self._registered: Final = ByBucket[RegisteredSubscription]()
        self._workers: Final = ByBucket[DeliveryWorker]()
        self._states: Final = StateCounts()
        self.observer: Final = DeliveryObserver(self._states, self._workers, self.filters, self.tails)
        self._changed: Final[dict[DeliveryWorker, None]] = {}
        self._memory: Final = MemoryLimit(self._workers)
        self._advanced: Final[dict[DeliveryWorker, None]] = {}
        self._progress: Final[dict[str, DeliveryCheckpoint]] = {}
        """Of deliveries that were lost with a lease, what may not be stored."""
        self._locks: Final = KeyedLocks()
        self._gates: Final = SinkGates()
        self._applied_revision = 0
        self._remote: Final = RemoteRecords(services.termini, f"{settings.scope}/{settings.manager}")
        self._dead_letters: Final = DeadLetterWriter(services.clusters)
        self._ownership = self._make_ownership(settings)
        self._tasks: tuple[asyncio.Task[None], ...] = ()

    def _make_ownership(self, settings: DispatcherSettings) -> SliceOwnership:
        services, name = self._services, f"{settings.scope}/{settings.manager}"
        return SliceOwnership(name, settings.slices, services.leases, services.termini, services.supervisor, self)

    def reconfigure(self, settings: DispatcherSettings) -> None:
        """Continue under another policy; the manager then calls `put` again for its subscriptions."""
        before, self._settings = self._settings, settings
        if before.slices != settings.slices:
            running = bool(self._tasks)
            for task in self._tasks:
                task.cancel()
            self._ownership = self._make_ownership(settings)
            if running:
                self.start()

    def start(self) -> None:
        """Start delivery; `put` may be called before and after."""
        name = f"{self._settings.scope}/{self._settings.manager}"
        for cluster in self._clusters():
            cluster.charge(self._buffered_bytes)
        offsets = partial(GroupOffsets(name, self._workers, self.log).run, lambda: self._settings.slices)
        ownership = self.supervisor.keep(self._ownership.run, f"slices:{name}")
        writing = self.supervisor.keep(self._write, f"checkpoints:{name}")
        self._tasks = ownership, writing, self.supervisor.keep(offsets, f"subscription-offsets:{name}")

    def _clusters(self) -> list[ClusterBridge]:
        """The cluster whose counters include the events in memory: that of the first stream."""
        names = [route.cluster for route in self._settings.streams.values()]
        return [self._services.clusters[name] for name in names[:1]]

    # -- from the manager

    async def put(
        self,
        subscription: DeliverableSubscription,
        revision: int,
        start_offsets: StartOffsets,
        hold_reason: Reason | None = None,
        edition: int | None = None,
    ) -> None:
        """Deliver a subscription, or replace it with a new version; returns when the version is in force here.

        Nothing is sent to an older version's sink after that. The position is kept if the incarnation is the same.
        `hold_reason` is the reason for sending nothing (CONSENT, POLICY, CREDENTIAL, OPERATOR) until the next `put`.
        An update (a greater edition; default: the revision) ends a suspension.
        """
        async with self._locks.of(subscription.id):
            self._registered[subscription.id] = RegisteredSubscription(
                subscription, revision, start_offsets, hold_reason, revision if edition is None else edition
            )
            self._count(subscription.id)
            await self._start_worker(subscription.id)

    def renew(self, subscription: DeliverableSubscription, revision: int) -> None:
        """Continue with this version, which has a renewed token, when delivery next starts: after a lost lease, say.

        The refresh token of the version before may be good for one use only.
        """
        registered = self._registered.get(subscription.id)
        if registered is not None:
            self._registered[subscription.id] = registered._replace(subscription=subscription, revision=revision)

    async def remove(self, id: str) -> None:
        """Stop its delivery and delete its position; returns when nothing is sent to its sink any more."""
        async with self._locks.of(id):
            self._registered.pop(id, None)
            self._progress.pop(id, None)
            await self._stop_worker(id)
            self._count(id)
            record = self._ownership.record(id)
            if record is not None:
                record.remove(id)

    async def status(self, id: str) -> SubscriptionStatus | None:
        """Its status; None if it is unknown here."""
        registered, worker = self._registered.get(id), self._workers.get(id)
        if registered is None:
            return None
        if worker is None:
            return await remote_status(registered, self._remote, self.log)
        return await local_status(worker, self.log)

    def state(self, id: str) -> DeliveryState:
        """Its state as far as this process knows it; one that another gateway delivers counts as active, or as held."""
        worker, registered = self._workers.get(id), self._registered.get(id)
        if worker is not None:
            return worker.state
        return DeliveryState.ACTIVE if registered is None else registered.state

    def _count(self, id: str) -> None:
        registered, worker = self._registered.get(id), self._workers.get(id)
        if registered is None:
            return self._states.set(id, None)
        reason = registered.hold_reason if worker is None else worker.queue.reason
        return self._states.set(id, CountedState(registered.subscription.protocol, self.state(id), reason))

    def set_applied(self, revision: int) -> None:
        """All changes of the manager up to this revision are in force here."""
        self._applied_revision = revision

    async def wait_applied(self, id: str, revision: int) -> bool:
        """Wait until a change is in force where the subscription is delivered; False if that takes too long."""
        return await self._remote.wait(id, revision, lambda: self._ownership.record(id) is not None)

    async def resume(self, id: str) -> bool:
        """End a suspension; False if it is not suspended, or another gateway delivers it."""
        worker = self._workers.get(id)
        if worker is None or worker.version.hold_reason is not None or not worker.resume():
            return False
        LOG.info("subscription resumed", id=id)
        return True

    async def send_test(self, id: str, event: CloudEvent) -> Answer | None:
        """Send an event that is not in the log; None if another gateway delivers it, or it has no sink now."""
        worker = self._workers.get(id)
        return None if worker is None else await worker.send_test(event)

    async def close(self) -> None:
        """Wait briefly for answers, write the positions, and stop."""
        await self._close_all(list(self._workers), _CLOSE_GRACE)
        await self._flush()
        for cluster in self._services.clusters.values():
            cluster.discharge(self._buffered_bytes)
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=_CLOSE_GRACE) if self._tasks else None

    # -- one subscription

    async def _start_worker(self, id: str) -> None:
        """Deliver the registered version from the stored position; the caller holds its lock."""
        counts = await self._stop_worker(id)
        registered, record = self._registered.get(id), self._ownership.record(id)
        if registered is None or record is None:
            return
        version = SubscriptionVersion(
            registered.subscription,
            registered.revision,
            self._queue_settings(registered),
            registered.hold_reason,
            registered.edition,
        )
        checkpoint = with_progress(starting_checkpoint(registered, record.get(id)), self._progress.pop(id, None))
        worker = self._workers[id] = DeliveryWorker(
            self, version, checkpoint, self._gate(registered.subscription), counts
        )
        self.observer.track(registered.subscription, registered.start_offsets.streams, counts)
        record.put(id, dump_checkpoint(checkpoint))
        worker.open(self._open_sink)
        self._count(id)

    async def _stop_worker(self, id: str, grace: float | None = None) -> DeliveryCounts:
        """Stop its delivery and update its checkpoint; returns its counts."""
        worker = self._workers.get(id)
        if worker is None:
            return DeliveryCounts()
        await (worker.close() if grace is None else worker.close(grace))
        if self._workers.get(id) is worker:
            self._update_checkpoint(worker)
            self._memory.forget(worker)
            del self._workers[id]
            self._count(id)
        return worker.counts

    def _queue_settings(self, registered: RegisteredSubscription) -> QueueSettings:
        rules, subscription = self._settings, registered.subscription
        limit = subscription.config.max_events
        return QueueSettings(subscription.delivery, rules.refusals, rules.suspend_after, limit)

    def _gate(self, subscription: DeliverableSubscription) -> SinkGate:
        sink = subscription.sink
        origin = f"{subscription.protocol} {sink.origin if sink.hosts else sink.text}"
        return self._gates.gate(
            subscription.owner, origin, f"{origin} {sink.path}", subscription.delivery, self._settings.retry_after
        )

    # -- from the slices

    async def caught_up(self) -> bool:
        """See `SliceListener`."""
        return await self._services.caught_up()

    async def on_gained(self, buckets: Collection[int]) -> None:
        """See `SliceListener`."""
        turn = TimeSlice()
        for id in self._registered.ids_in(buckets):
            async with self._locks.of(id):
                if id not in self._workers:
                    await self._start_worker(id)
            await turn.pause()

    async def on_revoked(self, buckets: Collection[int]) -> None:
        """See `SliceListener`."""
        await self._close_all(self._workers.ids_in(buckets), None)

    def on_lost(self, buckets: Collection[int]) -> None:
        """See `SliceListener`."""
        lost = [self._workers.pop(id) for id in self._workers.ids_in(buckets)]
        for worker in lost:
            worker.halt()
            self._changed.pop(worker, None)
            self._advanced.pop(worker, None)
            self._memory.forget(worker)
            self._count(worker.subscription.id)
        self.supervisor.start(self._abort(lost), "deliveries-abort")

    async def _abort(self, workers: Collection[DeliveryWorker]) -> None:
        turn = TimeSlice()
        for worker in workers:
            if worker.subscription.id not in self._workers:
                self._progress[worker.subscription.id] = worker.checkpoint()
            worker.abort()
            self.supervisor.start(worker.close(0.0), "delivery-abort")
            await turn.pause()

    async def _close_all(self, ids: Collection[str], grace: float | None) -> None:
        async def end(id: str) -> None:
            async with self._locks.of(id):
                await self._stop_worker(id, grace)

        ending, turn = [], TimeSlice()
        for id in ids:
            ending.append(self.supervisor.start(end(id), "delivery-end"))
            await turn.pause()
        await asyncio.gather(*ending)

    # -- from the workers

    @property
    def valid(self) -> bool:
        """See `WorkerContext`."""
        return self._ownership.valid

    def log(self, address: str) -> TopicLog | None:
        """See `WorkerContext`."""
        route = self._settings.streams.get(address)
        return None if route is None else self._services.clusters[route.cluster].log(route)

    def dead_letter(self, worker: DeliveryWorker, dead_letter: DeadLetter) -> None:
        """See `WorkerContext`."""
        route = self._settings.streams.get(dead_letter.location.address)
        done = partial(worker.dead_lettered, dead_letter.location)
        has_topic = route is not None and route.reading.dead_letter is not None
        log_refusal(worker.subscription.id, worker.counts.refused, dead_letter, has_topic=has_topic)
        if route is None:
            done(False)
        else:
            retries = partial(worker.retries_dead_letter, dead_letter.location)
            self._dead_letters.write(route, worker.subscription, dead_letter, done, retries)

    def on_attempts_changed(self, worker: DeliveryWorker) -> None:
        """See `WorkerContext`."""
        self._changed[worker] = None

    def on_position_advanced(self, worker: DeliveryWorker) -> None:
        """See `WorkerContext`."""
        self._advanced[worker] = None
        self._memory.note(worker)

    def on_state_changed(self, worker: DeliveryWorker) -> None:
        """See `WorkerContext`."""
        if self._workers.get(worker.subscription.id) is worker:
            self._count(worker.subscription.id)

    def restart(self, worker: DeliveryWorker) -> None:
        """See `WorkerContext`."""
        worker.abort()
        self.supervisor.start(self._restart(worker), "delivery-restart")

    async def _restart(self, worker: DeliveryWorker) -> None:
        id = worker.subscription.id
        async with self._locks.of(id):
            if self._workers.get(id) is worker:
                await self._start_worker(id)

    # -- writing

    async def _write(self) -> None:
        writes = 0
        while True:
            await asyncio.sleep(_WRITE_INTERVAL)
            writes = (writes + 1) % _WRITES_PER_OWNER_CHECK
            self._memory.enforce(self._settings.max_buffered_bytes)
            await self._flush(self._workers.buckets if not writes else ())

    async def _flush(self, check_owner: Collection[int] = ()) -> None:
        self.tails.report_advance(_MAX_ADVANCED)
        for record in self._ownership.records() if self._applied_revision else ():
            record.put(APPLIED, str(self._applied_revision))
        for worker in [*self._changed, *islice(self._advanced, _MAX_ADVANCED)]:
            self._update_checkpoint(worker)
        await self._ownership.write(check_owner)

    def _update_checkpoint(self, worker: DeliveryWorker) -> None:
        """Put its checkpoint into the record, which the next write stores."""
        self._changed.pop(worker, None)
        self._advanced.pop(worker, None)
        id = worker.subscription.id
        record = self._ownership.record(id)
        if record is not None and self._workers.get(id) is worker:
            record.put(id, dump_checkpoint(worker.checkpoint()))

    def _buffered_bytes(self) -> int:
        """Bytes in memory at the last count."""
        return self._memory.last_count
