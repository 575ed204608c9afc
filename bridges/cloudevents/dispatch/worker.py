"""The delivery of one subscription: connects its reader, queue and sink on the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, Protocol

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.checkpoint import DeliveryCheckpoint, StreamPosition
from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.entry import DeadLetter, EventLocation
from bridges.cloudevents.delivery.gate import SinkGate
from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.delivery.pace.circuit_breaker import RetryBackoff
from bridges.cloudevents.delivery.queue import DeliveryQueue
from bridges.cloudevents.delivery.sink import SendAttempt, Sink
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.dispatch.interface import OpenSink, SubscriptionVersion
from bridges.cloudevents.dispatch.scheduler import StepScheduler
from bridges.cloudevents.dispatch.streams import SubscriptionStreams
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.reading.filter_evaluator import SharedFilterEvaluator
from bridges.cloudevents.reading.shared_tail import SharedTails
from bridges.kafka.consume.batches import FetchedBatch
from bridges.kafka.records.record import KafkaRecord
from bridges.kafka.tap import TopicLog
from gateway.observability.logs import get_logger
from gateway.tasks import Supervisor, until

LOG: Final = get_logger(__name__)
_RECORDS_PER_STEP: Final = 200
"""Number of records that one subscription reads in one step, before others have theirs."""
_CLOSE_GRACE: Final = 5.0
"""Seconds that pending attempts may take when a subscription changes."""
_COPY_GRACE: Final = 1.0
"""Seconds that copies to the dead-letter topic may take after that."""
_EXPIRY_CHECK: Final = 60.0
"""Maximum seconds between two checks of the expiry."""


class WorkerContext(Protocol):
    """The dispatcher that delivers the subscription."""

    @property
    def supervisor(self) -> Supervisor: ...
    @property
    def valid(self) -> bool:
        """Whether this process may deliver now."""

    @property
    def scheduler(self) -> StepScheduler:
        """The scheduler of all subscriptions."""

    @property
    def filters(self) -> SharedFilterEvaluator:
        """The shared filter evaluation."""

    @property
    def tails(self) -> SharedTails:
        """The tails of the streams."""

    @property
    def metrics(self) -> ManagerMetrics:
        """The manager's counters."""

    def log(self, address: str) -> TopicLog | None:
        """The log of a stream; None if the policy no longer has it."""

    def event_of(self, record: KafkaRecord, address: str) -> CloudEvent | None:
        """The event of a record; None if it is not an event."""

    def dead_letter(self, worker: DeliveryWorker, dead_letter: DeadLetter) -> None:
        """Copy a refused event to its dead-letter topic; calls `DeliveryWorker.dead_lettered` when done."""

    def on_attempts_changed(self, worker: DeliveryWorker) -> None:
        """Its checkpoint has changed and must be written soon, or events would be sent again after a restart."""

    def on_position_advanced(self, worker: DeliveryWorker) -> None:
        """Its position may have advanced; the checkpoint may be written later."""

    def on_state_changed(self, worker: DeliveryWorker) -> None:
        """Its state has changed."""

    def restart(self, worker: DeliveryWorker) -> None:
        """Start its delivery again from its stored position."""


class DeliveryWorker:
    """Delivers one version of a subscription, from `open` until `close`."""

    __slots__ = (
        "_closed", "_context", "_gate", "_halted", "_last_state", "_loop", "_metrics", "_open_sink", "_opened",
        "_scheduled", "_sink", "_streams", "_tests", "_timer", "counts", "incarnation", "queue", "since",
        "subscription", "version",
    )  # fmt: skip

    def __init__(
        self,
        context: WorkerContext,
        version: SubscriptionVersion,
        checkpoint: DeliveryCheckpoint,
        gate: SinkGate,
        counts: DeliveryCounts,
    ) -> None:
        """`counts` are those of the previous version, which continue."""
        subscription, settings = version.subscription, version.settings
        self.subscription: Final = subscription
        self.version: Final = version
        self.counts: Final = counts
        self.incarnation: Final = checkpoint.incarnation
        self._context: Final = context
        self._metrics: Final = context.metrics.of(subscription.protocol)
        self._loop: Final = asyncio.get_running_loop()
        self._gate: Final = gate
        retry = settings.delivery.retry
        self.queue: Final = DeliveryQueue(settings, self, gate, RetryBackoff(retry.min, retry.max), self.counts)
        self.queue.delivered = checkpoint.delivered
        self.queue.reason = version.hold_reason or checkpoint.reason
        self.since = checkpoint.since if checkpoint.since is not None else _now_ms()
        if checkpoint.failing_since is not None:
            self.queue.failing_since = self._loop.time() - (_now_ms() - checkpoint.failing_since) / 1000
        self._streams: Final = SubscriptionStreams(
            subscription.id, checkpoint.streams, self.queue, counts, context, self
        )
        self._sink: Sink | None = None
        self._open_sink: OpenSink | None = None
        """None before `open` and after `close`."""
        self._scheduled = self._opened = self._closed = self._halted = False
        self._timer: asyncio.TimerHandle | None = None
        self._tests: Final[dict[int, asyncio.Future[Answer | None]]] = {}
        self._last_state = self.state

    # -- life

    def open(self, open_sink: OpenSink) -> None:
        """Start reading and sending; the sink is made for the first event."""
        self._open_sink, self._opened = open_sink, True
        self._gate.add_listener(self.wake)
        for address in self._streams:
            self._context.filters.add(address, self, self.subscription.filter)
            self._streams.open(address)
        self.wake()

    def on_stream_failed(self, address: str) -> None:
        """See `EventStreamListener`."""
        self._streams.failed(address)

    def on_topic_replaced(self, address: str) -> None:
        """See `EventStreamListener`: offsets of the old log mean nothing in the new one."""
        self._context.restart(self)

    def checkpoint(self) -> DeliveryCheckpoint:
        """The checkpoint to store."""
        queue, version = self.queue, self.version
        reason = None if queue.reason is version.hold_reason else queue.reason
        since = None if reason is None else self.since
        streams, delivered = self.positions(), queue.delivered if version.settings.limit is not None else 0
        return DeliveryCheckpoint(
            self.incarnation, streams, version.edition, reason, since, self._failing_since, delivered
        )

    @property
    def _failing_since(self) -> int | None:
        """In milliseconds since 1970, rounded to minutes, so that the checkpoint does not change often."""
        since = self.queue.failing_since
        return None if since is None else round((_now_ms() / 1000 - self._loop.time() + since) / 60) * 60_000

    def positions(self) -> Mapping[str, StreamPosition]:
        """The progress in each stream."""
        return self._streams.positions()

    def halt(self) -> None:
        """Send nothing from now on; `abort` follows."""
        self._halted = True

    def abort(self) -> None:
        """Stop reading and sending; pending attempts get no answer."""
        if self._closed:
            return
        self._streams.close()
        self._closed = True
        if self._opened:
            for address in self._streams:
                self._context.filters.remove(address, self)
        self._gate.remove_listener(self.wake)
        self.queue.cancel_attempts()
        if self._timer is not None:
            self._timer.cancel()
        for test in self._tests.values():
            if not test.done():
                test.set_result(None)

    async def close(self, grace: float = _CLOSE_GRACE) -> None:
        """Wait for answers, then `abort`."""
        self.queue.draining = True
        sink, self._sink, self._open_sink = self._sink, None, None
        if sink is not None:
            await sink.close(0.0 if self._closed else grace)
        if not self._closed:  # otherwise they are sent again, although they are dead letters
            await until(lambda: self.queue.dead_lettering <= self._streams.uncopied, min(grace, _COPY_GRACE))
        self.abort()

    # -- steps

    def wake(self) -> None:
        """Schedule a step."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._context.scheduler.add(self._run_step)

    def _run_step(self) -> None:
        self._scheduled = False
        if not self._closed:
            self._context.supervisor.attempt(self._step, "delivery")

    def _step(self) -> None:
        now, queue = self._loop.time(), self.queue
        self._expire()
        self._refetch(queue.take_refetches(now))
        more = False
        for reader in self._streams.readers:
            more = reader.read(now, _RECORDS_PER_STEP) or more
        self._send(now)
        if more:
            self.wake()
        self._set_timer(now)
        self._record_state()
        self._context.on_position_advanced(self)

    def _refetch(self, locations: Sequence[EventLocation]) -> None:
        for location in locations:
            reader = self._streams.reader(location.address)
            if reader is not None:
                reader.refetch((location,))
            else:
                self.queue.refetch_failed(location.address)

    def _send(self, now: float) -> None:
        if self._halted or not self._context.valid or (self._sink is None and self.queue.oldest_timestamp is None):
            return
        sink = self._opened_sink()
        if sink is None:
            return
        for attempt in self.queue.next_attempts(now, sink.free_slots):
            sink.send(attempt)

    def _opened_sink(self) -> Sink | None:
        if self._sink is None and self._open_sink is not None:
            self._sink = self._open_sink(self.subscription, self)
        return self._sink

    def _set_timer(self, now: float) -> None:
        """Schedule a step for the next time at which something is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.queue.next_wakeup(now)
        if self.subscription.config.expires is not None and self.queue.reason is None:
            left = max(0.0, (self.subscription.config.expires - _now_ms()) / 1000) + 1e-3
            due = min(due if due is not None else now + _EXPIRY_CHECK, now + left, now + _EXPIRY_CHECK)
        if due is not None:
            self._timer = self._loop.call_at(due, self.wake)

    def _expire(self) -> None:
        expires = self.subscription.config.expires
        if expires is not None and _now_ms() >= expires:
            self.queue.stop(Reason.EXPIRED)

    @property
    def state(self) -> DeliveryState:
        """The state that `status` shows."""
        if self.queue.reason is not None:
            return self.queue.reason.state
        well = self.queue.failing_since is None and not self._streams.trouble
        return DeliveryState.ACTIVE if well else DeliveryState.FAILING

    @property
    def failure(self) -> str:
        """Why it is not active, beside `DeliveryQueue.reason`; empty if there is nothing to say."""
        failure = self.queue.last_failure
        if self.state in (DeliveryState.ACTIVE, DeliveryState.ENDED):
            return ""
        return self._streams.trouble or ("" if failure is None else failure.reason)

    def _record_state(self) -> None:
        """Record when the state changed."""
        if self.state is not self._last_state:
            self._last_state, self.since = self.state, _now_ms()
            self._context.on_state_changed(self)

    def resume(self) -> bool:
        """End a suspension; False if it is not suspended."""
        if self.state is not DeliveryState.SUSPENDED:
            return False
        self.queue.resume(self._loop.time())
        self.wake()
        return True

    @property
    def next_attempt(self) -> int | None:
        """When a failing sink is tried again, in milliseconds since 1970."""
        due = self.queue.next_wakeup(self._loop.time(), attempts=True)
        if due is None or self.state is not DeliveryState.FAILING:
            return None
        return _now_ms() + round((due - self._loop.time()) * 1000)

    # -- from the readers

    def event_of(self, record: KafkaRecord, address: str) -> CloudEvent | None:
        """See `EventStreamListener`."""
        return self._context.event_of(record, address)

    def matches(self, event: CloudEvent) -> bool:
        """See `EventStreamListener`."""
        return self.subscription.filter.matches(event)

    def matching(self, address: str, batch: FetchedBatch, first: int, stop: int) -> Iterable[CloudEvent]:
        """See `EventStreamListener`."""
        return self._context.filters.matching(address, batch, self, first, stop)

    def on_position_advanced(self) -> None:
        """See `EventStreamListener`."""
        self._context.on_position_advanced(self)

    def on_lost(self, count: int) -> None:
        """See `EventStreamListener`: retention was faster (KM-8)."""
        self.counts.lost += count
        if count:
            LOG.warning("events of a subscription lost to retention", id=self.subscription.id, offsets=count)

    # -- from the sink

    def on_answer(self, attempt: SendAttempt, answer: Answer) -> None:
        """See `SinkListener`."""
        test = self._tests.pop(attempt.number, None)
        if test is not None:
            if not test.done():
                test.set_result(answer)
            return
        if not (self._closed or self._halted):
            now = self._loop.time()
            self._metrics.on_answer(attempt, answer, now, _now_ms())
            self.queue.on_answer(attempt, answer, now)
            self._context.on_attempts_changed(self)
            self.wake()

    def on_ready(self) -> None:
        """See `SinkListener`."""
        self.wake()

    async def send_test(self, event: CloudEvent) -> Answer | None:
        """Send an event that is not in the log; None if the sink has no free slot."""
        sink = None if self._closed else self._opened_sink()
        if sink is None or sink.free_slots < 1:
            return None
        number = -1 - max(map(abs, self._tests), default=0)
        answer: asyncio.Future[Answer | None] = self._loop.create_future()
        self._tests[number] = answer
        sink.send(SendAttempt(number, (event,), 0))
        try:
            return await answer
        finally:
            self._tests.pop(number, None)

    # -- from the queue

    def dead_letter(self, dead_letter: DeadLetter) -> None:
        """See `QueueListener`."""
        self._context.dead_letter(self, dead_letter)

    def dead_lettered(self, location: EventLocation, copied: bool) -> None:
        """A refused event was copied, or there is no dead-letter topic."""
        if not self._closed:
            self.counts.deadlettered += copied
            self._streams.copied(location)
            self.queue.dead_lettered(location)
            self._context.on_attempts_changed(self)
            self.wake()

    def retries_dead_letter(self, location: EventLocation) -> bool:
        """Whether to try again, after a refused event could not be copied."""
        self._streams.copy_failed(location)
        return not self._closed

    def on_stopped(self, reason: Reason) -> None:
        """See `QueueListener`."""
        self.since, self._last_state = _now_ms(), reason.state
        id, detail = self.subscription.id, self.failure
        LOG.warning(f"subscription {reason.state.value}", id=id, reason=reason.value, detail=detail)
        self._context.on_attempts_changed(self)
        self._context.on_state_changed(self)
        self.wake()


def _now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
