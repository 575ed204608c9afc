"""The delivery of one subscription: connects its reader, outlet and sink on the event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.breaker import RetryPauses
from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.entry import Letter, Place
from bridges.cloudevents.delivery.gate import SinkGate
from bridges.cloudevents.delivery.mark import Mark, StreamPosition
from bridges.cloudevents.delivery.metrics import ManagerMetrics
from bridges.cloudevents.delivery.outlet import Outlet, OutletRules
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.reading.judge import Judge
from bridges.cloudevents.reading.lane import Lane
from bridges.cloudevents.reading.subscription import PushedSubscription
from bridges.cloudevents.reading.turns import PushTurns
from bridges.cloudevents.sinks.interface import SendAttempt, Sink
from bridges.kafka.consume.batches import FetchedBatch
from bridges.kafka.records.record import KafkaRecord
from bridges.kafka.tap import TopicLog, identity_of
from gateway.errors import AmqpError
from gateway.observability.logs import get_logger
from gateway.tasks import Supervisor

LOG: Final = get_logger(__name__)
_RECORDS: Final = 200
"""Number of records that one subscription reads in a turn, before others have theirs."""
_AGAIN: Final = 1.0
"""Seconds before a stream that could not be read is looked up again."""
_PATIENCE: Final = 5.0
"""Seconds that pending attempts may take when a subscription changes."""
_LOOKS: Final = 60.0
"""Maximum seconds between two checks of the expiry."""


class PushOwner(Protocol):
    """The fan that delivers the subscription."""

    @property
    def supervisor(self) -> Supervisor: ...
    @property
    def valid(self) -> bool:
        """Whether this process may deliver now."""

    @property
    def turns(self) -> PushTurns:
        """The scheduler of all subscriptions."""

    @property
    def judge(self) -> Judge:
        """The shared filter evaluation."""

    @property
    def metrics(self) -> ManagerMetrics:
        """The manager's counters."""

    def log(self, address: str) -> TopicLog | None:
        """The log of a stream; None if the policy no longer has it."""

    def event_in(self, record: KafkaRecord, address: str) -> CloudEvent | None:
        """The event of a record; None if it is not an event."""

    def bury(self, push: Push, letter: Letter) -> None:
        """Copy a refused event to its dead-letter topic; calls `Push.buried` when done."""

    def changed(self, push: Push) -> None:
        """Its mark has changed and must be written soon, or events would be sent again after a restart."""

    def moved(self, push: Push) -> None:
        """Its position may have advanced; the mark may be written later."""

    def restart(self, push: Push) -> None:
        """Deliver it again from its stored position."""


class PushVersion(NamedTuple):
    """A version of a subscription; `hold` is the reason for sending nothing, or None."""

    subscription: PushedSubscription
    revision: int
    rules: OutletRules
    hold: Reason | None
    edition: int


class Push:
    """Delivers one version of a subscription, from `open` until `close`."""

    def __init__(
        self, owner: PushOwner, version: PushVersion, mark: Mark, gate: SinkGate, counts: DeliveryCounts
    ) -> None:
        """`counts` are those of the previous version, which continue."""
        subscription, rules = version.subscription, version.rules
        self.subscription: Final = subscription
        self.version: Final = version
        self.counts: Final = counts
        self.incarnation: Final = mark.incarnation
        self._owner: Final = owner
        self._metrics: Final = owner.metrics.of(subscription.protocol)
        self._loop: Final = asyncio.get_running_loop()
        self._gate: Final = gate
        retry = rules.delivery.retry
        self.outlet: Final = Outlet(rules, self, gate, RetryPauses(retry.min, retry.max), self.counts)
        self.outlet.delivered = mark.delivered
        self.outlet.reason = version.hold or mark.reason
        self.since = mark.since if mark.since is not None else _wall()
        if mark.failing_since is not None:
            self.outlet.failing_since = self._loop.time() - (_wall() - mark.failing_since) / 1000
        self._streams: Final[dict[str, StreamPosition]] = dict(mark.streams)
        self._lanes: Final[dict[str, Lane]] = {}
        self._sink: Sink | None = None
        self._scheduled = self._opened = self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._tests: Final[dict[int, asyncio.Future[Answer | None]]] = {}
        self._shown = DeliveryState.ACTIVE

    # -- life

    def open(self, sink: Sink) -> None:
        """Start reading and sending."""
        self._sink, self._opened = sink, True
        self._gate.listen(self.wake)
        for address in self._streams:
            self._owner.judge.join(address, self, self.subscription.filter)
            self._look_for(address)
        self.wake()

    def failed(self, address: str) -> None:
        """See `LaneOwner`."""
        self._drop(address)
        self._loop.call_later(_AGAIN, self._look_for, address)

    def gone(self, address: str) -> None:
        """See `LaneOwner`: what is under way of the old log means nothing in the new one."""
        self._owner.restart(self)

    def _look_for(self, address: str) -> None:
        if not self._closed:
            self._owner.supervisor.start(self._find(address), "push-open")

    def _drop(self, address: str) -> None:
        lane = self._lanes.pop(address, None)
        if lane is not None:
            self._streams[address] = lane.position()
            lane.close()
            self.outlet.unread()

    async def _find(self, address: str) -> None:
        """Look up a stream, repeatedly until it can be read."""
        log = self._owner.log(address)
        while log is not None and not self._closed and address not in self._lanes:
            try:
                topic = await log.find()
            except AmqpError:
                await asyncio.sleep(_AGAIN)
                continue
            if not self._closed and address not in self._lanes:
                self._note(address, identity_of(topic))
                self._lanes[address] = Lane(address, log, topic, self._streams[address], self.outlet, self)
                self.wake()

    def _note(self, address: str, identity: str) -> None:
        if self._streams[address].identity != identity:
            LOG.warning("subscription reads a topic that was created anew", id=self.subscription.id, stream=address)

    def mark(self) -> Mark:
        """The mark to store."""
        outlet, version = self.outlet, self.version
        reason = None if outlet.reason is version.hold else outlet.reason
        since = None if reason is None else self.since
        streams, delivered = self.streams(), outlet.delivered if version.rules.limit is not None else 0
        return Mark(self.incarnation, streams, version.edition, reason, since, self._failing_since, delivered)

    @property
    def _failing_since(self) -> int | None:
        """In milliseconds since 1970, rounded to minutes, so that it alone does not make the mark change often."""
        since = self.outlet.failing_since
        return None if since is None else round((_wall() / 1000 - self._loop.time() + since) / 60) * 60_000

    def streams(self) -> Mapping[str, StreamPosition]:
        """The progress in each stream."""
        return {**self._streams, **{address: lane.position() for address, lane in self._lanes.items()}}

    def end(self) -> None:
        """Stop reading and sending; pending attempts get no answer."""
        if self._closed:
            return
        for address in list(self._lanes):
            self._drop(address)
        self._closed = True
        if self._opened:
            for address in self._streams:
                self._owner.judge.leave(address, self)
        self._gate.forget(self.wake)
        self.outlet.abandon()
        if self._timer is not None:
            self._timer.cancel()
        for test in self._tests.values():
            if not test.done():
                test.set_result(None)

    async def close(self, patience: float = _PATIENCE) -> None:
        """Wait for answers, then `end`."""
        self.outlet.draining = True
        sink, self._sink = self._sink, None
        if sink is not None:
            await sink.close(0.0 if self._closed else patience)
        self.end()

    # -- turns

    def wake(self) -> None:
        """Schedule a step."""
        if not self._scheduled and not self._closed:
            self._scheduled = True
            self._owner.turns.add(self._turn)

    def _turn(self) -> None:
        self._scheduled = False
        if not self._closed:
            self._owner.supervisor.attempt(self._pump, "push")

    def _pump(self) -> None:
        now, outlet = self._loop.time(), self.outlet
        self._expire()
        self._read_again(outlet.missing(now))
        more = False
        for lane in list(self._lanes.values()):
            more = lane.read(now, _RECORDS) or more
        self._send(now)
        if more:
            self.wake()
        self._wait(now)
        self._show()
        self._owner.moved(self)

    def _read_again(self, places: Sequence[Place]) -> None:
        for place in places:
            lane = self._lanes.get(place.address)
            if lane is not None:
                lane.again((place,))
            else:
                self.outlet.unread()

    def _send(self, now: float) -> None:
        sink = self._sink
        if sink is None or not self._owner.valid:
            return
        for attempt in self.outlet.attempts(now, sink.free_slots):
            sink.send(attempt)

    def _wait(self, now: float) -> None:
        """Schedule a step for the next time at which something is due."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due = self.outlet.next_time(now)
        if self.subscription.config.expires is not None and self.outlet.reason is None:
            left = max(0.0, (self.subscription.config.expires - _wall()) / 1000) + 1e-3
            due = min(due if due is not None else now + _LOOKS, now + left, now + _LOOKS)
        if due is not None:
            self._timer = self._loop.call_at(due, self.wake)

    def _expire(self) -> None:
        expires = self.subscription.config.expires
        if expires is not None and _wall() >= expires:
            self.outlet.stop(Reason.EXPIRED)

    @property
    def state(self) -> DeliveryState:
        """The state that `status` shows."""
        if self.outlet.reason is not None:
            return self.outlet.reason.state
        return DeliveryState.ACTIVE if self.outlet.failing_since is None else DeliveryState.FAILING

    def _show(self) -> None:
        """Record when the state changed."""
        if self.state is not self._shown:
            self._shown, self.since = self.state, _wall()

    def resume(self) -> bool:
        """End a suspension; False if it is not suspended."""
        if self.state is not DeliveryState.SUSPENDED:
            return False
        self.outlet.resume(self._loop.time())
        self.wake()
        return True

    @property
    def next_attempt(self) -> int | None:
        """When a failing sink is tried again, in milliseconds since 1970."""
        due = self.outlet.next_time(self._loop.time(), attempts=True)
        if due is None or self.state is not DeliveryState.FAILING:
            return None
        return _wall() + round((due - self._loop.time()) * 1000)

    # -- from the lanes

    def event_in(self, record: KafkaRecord, address: str) -> CloudEvent | None:
        """See `LaneOwner`."""
        return self._owner.event_in(record, address)

    def wants(self, event: CloudEvent) -> bool:
        """See `LaneOwner`."""
        return self.subscription.filter.matches(event)

    def wanted(self, address: str, batch: FetchedBatch, first: int, stop: int) -> Iterable[CloudEvent]:
        """See `LaneOwner`."""
        return self._owner.judge.wanted(address, batch, self, first, stop)

    def lost(self, count: int) -> None:
        """See `LaneOwner`: retention was faster (KM-8)."""
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
        if not self._closed:
            now = self._loop.time()
            self._metrics.answered(attempt, answer, now, _wall())
            self.outlet.on_answer(attempt, answer, now)
            self._owner.changed(self)
            self.wake()

    def on_ready(self) -> None:
        """See `SinkListener`."""
        self.wake()

    async def send_test(self, event: CloudEvent) -> Answer | None:
        """Send an event that is not in the log; None if the sink has no room for it."""
        sink = self._sink
        if sink is None or self._closed or sink.free_slots < 1:
            return None
        number = -1 - max(map(abs, self._tests), default=0)
        answer: asyncio.Future[Answer | None] = self._loop.create_future()
        self._tests[number] = answer
        sink.send(SendAttempt(number, (event,), 0))
        try:
            return await answer
        finally:
            self._tests.pop(number, None)

    # -- from the outlet

    def bury(self, letter: Letter) -> None:
        """See `OutletOwner`."""
        self._owner.bury(self, letter)

    def buried(self, place: Place, copied: bool) -> None:
        """A refused event was copied, or there is no dead-letter topic."""
        if not self._closed:
            self.counts.deadlettered += copied
            self.outlet.buried(place)
            self._owner.changed(self)
            self.wake()

    @property
    def closed(self) -> bool:
        """Whether its delivery has ended."""
        return self._closed

    def stopped(self, reason: Reason) -> None:
        """See `OutletOwner`."""
        self.since, self._shown = _wall(), reason.state
        failure = self.outlet.last_failure
        why = "" if failure is None or reason.state is DeliveryState.ENDED else failure.reason
        LOG.warning(f"subscription {reason.state.value}", id=self.subscription.id, reason=reason.value, detail=why)
        self._owner.changed(self)
        self.wake()


def _wall() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000
