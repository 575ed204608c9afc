"""A receive link on an event log: delivers events as the peer's credit permits (ES 1, 3.2)."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Final

import structlog

from bridges.kafka.admin.client import Topic
from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.common.counters import ClusterCounters
from bridges.kafka.common.states import next_state
from bridges.kafka.consume.batches import FetchedBatch, PartitionBuffer
from bridges.kafka.consume.protocols import PartitionSelections, Selection
from bridges.kafka.links.checkpointer import DurableTerminus
from bridges.kafka.links.delivery_policy import PLAIN, DeliveryPolicy
from bridges.kafka.links.event_edits import rewritten, with_gap, with_partitions
from bridges.kafka.links.event_outcomes import EventOutcomes
from bridges.kafka.links.log_link import LogLink
from bridges.kafka.links.offsets import at_ends, drain_ends
from bridges.kafka.links.receiver_state import TRANSITIONS, ReceiverEvent, ReceiverState
from bridges.kafka.links.redelivery_queue import OpenRetirements
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.ttl import unexpired
from gateway.amqp.link.handlers import BatchOutgoing
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.link.transactions import Enlisting, Retirement
from gateway.errors import RESOURCE_DELETED, AmqpError
from gateway.links.link import EventCounter

_MAX_HELD: Final = 64 * 1024 * 1024
"""Unsettled bytes above which a link sends nothing more: they are retained for redelivery."""
_BATCHES_AT_ONCE: Final = 4
"""Batches that one link delivers in one turn of the loop."""
_DRAINING: Final = ReceiverState.DRAINING
_offset: Final = itemgetter(2)
log = structlog.get_logger(logger_name="kafka")


class LogReceiver(BatchOutgoing):
    """Handler of one outgoing link; everything here runs on the loop.

    `starts`: the first offset to read of each partition; `bound`: the link is bound to the one partition in `starts`.
    `selections`: None for every event; `terminus`: None if the positions are not stored.
    """

    _state = ReceiverState.ATTACHING
    _counter: EventCounter | None = None

    def __init__(
        self,
        link: LogLink,
        cluster: Cluster,
        topic: Topic,
        starts: Mapping[int, int],
        counters: ClusterCounters,
        *,
        bound: bool,
        selections: PartitionSelections | None = None,
        policy: DeliveryPolicy = PLAIN,
        terminus: DurableTerminus | None = None,
    ) -> None:
        self._link: Final = link
        self._cluster: Final = cluster
        self._topic: Final = topic.name
        self._attached_to: Final = topic
        self._positions: Final = dict(starts)
        self._partition_selections: Final = selections
        self._selections: Final[dict[int, Selection | None]] = {}
        self._policy: Final = policy
        self._terminus: Final = terminus
        self._bound: Final = bound
        self._counters: Final = counters
        self._outcomes: Final = EventOutcomes(self, link, topic.name, policy, terminus, counters)
        self._scheduler: Final = cluster.scheduler_of(policy.isolation)
        self._buffers: Final[dict[int, PartitionBuffer]] = {}
        self._ready: dict[int, None] = {}
        """Partitions whose next batch may be in memory, in the order of their turns."""
        self._redeliveries: Final = self._outcomes.redeliveries
        self._announce = self._announces = not bound and policy.annotated
        self._gaps: Final[set[int]] = set()
        self._drain_ends: dict[int, int] = {}
        self._scheduled = self._window_full = self._warned_full = False

    def _enter(self, event: ReceiverEvent) -> bool:
        """Change the state by `event`; returns whether it is another one."""
        before, self._state = self._state, next_state(TRANSITIONS, self._state, event)
        return self._state is not before

    def begin(self) -> None:
        """Begin to read; called just before the attach is answered."""
        self._enter(ReceiverEvent.ATTACHED)
        self._cluster.watch(self._attached_to, self)
        if self._terminus is not None:
            self._terminus.displaced = self._link.detach
        if (counter := self._link.counter) is not None:
            self._counter = counter.reading(self.positions)
        for partition in self._positions:
            self._join(partition)

    def _join(self, partition: int) -> None:
        selection = None if self._partition_selections is None else self._partition_selections.of(partition)
        self._selections[partition] = selection
        buffer = self._buffers[partition] = self._scheduler.join(self._topic, partition, self)
        buffer.add_selection(selection)
        self._ready[partition] = None

    def positions(self) -> dict[int, int]:
        """The offset per partition at which a link that resumes after this one begins."""
        if self._terminus is None:
            return dict(self._positions)
        position = self._terminus.progress.position
        return {partition: position(partition, read) for partition, read in self._positions.items()}

    # -- from the buffers and the cluster

    def arrived(self, partition: int) -> None:
        """See `Waiter`."""
        self._ready[partition] = None
        if self._link.open:
            self._guarded(self._deliver)

    def lost(self, partition: int, low: int) -> None:
        """See `Waiter`. The link continues at the oldest event, which announces the gap (KM-8)."""
        self._guarded(partial(self._overtaken, partition, low))

    def _overtaken(self, partition: int, low: int) -> None:
        self._counters.gaps += 1
        if self._policy.detach_at_gap:
            self._link.detach(AmqpError(RESOURCE_DELETED, "retention has deleted the next event of this link"))
            return
        self._positions[partition] = low
        self._gaps.add(partition)
        self.arrived(partition)

    def failed(self, error: AmqpError) -> None:
        """See `Waiter`."""
        self._guarded(partial(self._link.detach, error))

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run a step; an unexpected error ends this link only, although other links are notified after it."""
        self._cluster.supervisor.attempt(partial(self._link.attempt, step), "kafka-link")

    def topic_grew(self, topic: Topic) -> None:
        """KM-9: a link without a binding reads new partitions from their beginning, and announces them."""
        added = range(len(self._positions), topic.partitions)
        if self._bound or not added:
            return
        self._announce = self._announces
        for partition in added:
            self._positions[partition] = 0
            self._join(partition)
        self.deliver_later()

    def topic_gone(self) -> None:
        """KM-18."""
        self._link.detach(AmqpError(RESOURCE_DELETED, "the event log behind this address was deleted"))

    # -- from the link

    def on_credit(self) -> None:
        """The peer has given credit, or drains."""
        self._deliver()
        if self._link.draining and self._link.open and self._enter(ReceiverEvent.DRAIN):
            self._cluster.supervisor.start(self._drain(), f"kafka-drain:{self._topic}")

    def on_outcome(self, event: EncodedEvent, outcome: Outcome) -> None:
        """The peer has settled an event, finally or to get it again."""
        if self._window_full:
            self.deliver_later()
        self._outcomes.settled(event, outcome)

    def on_retire(self, transaction: Enlisting, retirement: Retirement) -> None:
        """The peer gives an event an outcome in a transaction."""
        self._outcomes.retired(transaction, retirement)

    @property
    def retirements(self) -> OpenRetirements:
        """The events that are settled in open transactions, whose outcomes are still to come."""
        return self._outcomes.retirements

    def on_acquire(self, transaction: Enlisting) -> None:
        """Events are acquired in a transaction from now on: after a rollback they are sent again (decision 99)."""
        if self._terminus is not None:
            self._terminus.checkpointer.enlist(transaction)

    def takes_batches(self) -> bool:
        """See `handlers.BatchOutgoing`."""
        return True

    def on_accepted(self, events: list[EncodedEvent]) -> None:
        """`on_outcome` for several accepted events."""
        if self._window_full:
            self.deliver_later()
        if self._outcomes.tracked:
            self._outcomes.done(events)

    def has_partition(self, partition: int) -> bool:
        """See `EventSender`."""
        return partition in self._buffers

    def window_changed(self) -> None:
        """See `EventSender`."""
        if self._window_full:
            self.deliver_later()

    def on_detach(self, error: AmqpError | None) -> None:
        """The link is over; its positions are only stored for a durable terminus or a group."""
        self._enter(ReceiverEvent.DETACHED)
        if self._terminus is not None:
            self._terminus.checkpointer.end(self._terminus, self._link)
        if self._counter is not None:
            self._counter.end()
        self._link.take_unsettled()
        self._cluster.unwatch(self._topic, self)
        for partition, buffer in self._buffers.items():
            buffer.remove_selection(self._selections[partition])
            self._scheduler.leave(buffer, self, self._positions[partition])
        self._buffers.clear()
        self._ready.clear()
        self._redeliveries.end()

    # -- sending

    @property
    def _full(self) -> bool:
        link = self._link
        return link.unsettled_bytes + self._redeliveries.dead_letter_bytes >= _MAX_HELD or link.keeps_too_much

    def _deliver(self) -> None:
        """Send events from memory as the credit permits."""
        if self._redeliveries:
            self._send_redeliveries()
        ready, link, batches, turn = self._ready, self._link, _BATCHES_AT_ONCE, self._cluster.turn_budget
        left = turn.size(link.unsettled_bytes > 0)
        while ready and link.credit > 0 and not self._full:
            if not batches or left <= 0:
                self.deliver_later()
                break
            batches -= 1
            partition = next(iter(ready))
            del ready[partition]
            if partition in self._outcomes.unresolved:
                continue  # until `resume` makes it ready
            batch = self._buffers[partition].take(self._positions[partition], self)
            if batch is not None:  # otherwise `arrived` is called later
                ready[partition] = None
                size = self._send_from(batch, partition, left)
                left -= size
                turn.used(size)
        if (full := self._full) and not self._window_full:
            self._report_full()
        self._window_full = full
        if self._state is _DRAINING:
            self._finish_drain()

    def _report_full(self) -> None:
        """Count that nothing is sent until outcomes come; log it once for each link."""
        self._counters.held_back += 1
        if not self._warned_full:
            self._warned_full = True
            held = {"unsettled": self._link.unsettled_bytes, "dead_letters": self._redeliveries.dead_letter_bytes}
            log.warning("link paused until it settles deliveries", topic=self._topic, **held, limit=_MAX_HELD)

    def _send_from(self, batch: FetchedBatch, partition: int, size: int) -> int:
        """Send until the batch, the credit or about `size` bytes are used up; returns the bytes sent. The hot path."""
        position = self._positions[partition]
        events, event_size = batch.selected(self._selections[partition]), batch.size // (len(batch.records) + 1)
        limit = min(self._link.credit, size // event_size + 1)
        first = index = 0 if position == batch.start else bisect_left(events, position, key=_offset)
        if batch.has_ttl or self._policy.drop_expired:
            chosen, index = self._unexpired(events, index, limit)
        else:
            chosen = events[index : index + limit]
            index += len(chosen)
        if (terminus := self._terminus) is not None:
            chosen = terminus.progress.left(partition, chosen)
        if batch.buffer.encoder.routed and (rewrite := self._link.leaving) is not None:
            chosen, index, incomplete = rewritten(rewrite, events, chosen, index, partial(self.resume, partition))
            if incomplete:
                del self._ready[partition]
        if terminus is not None:
            terminus.progress.sent(partition, map(_offset, chosen))
            terminus.checkpointer.changed(terminus)
        end = self._positions[partition] = events[index].offset if index < len(events) else batch.end
        if self._counter is not None:
            self._counter.lot(batch.count(position, end), index - first, chosen)
        if not chosen:
            return 0
        self._counters.delivered += len(chosen)
        sent = event_size * len(chosen)
        if self._announce or self._gaps:
            self._send_edited(chosen[0])
            chosen = chosen[1:]
        self._link.send_all(chosen)
        return sent

    def resume(self, partition: int) -> None:
        """See `EventSender`."""
        if partition in self._buffers:
            self._ready[partition] = None
            self.deliver_later()

    def _unexpired(self, events: list[EncodedEvent], index: int, limit: int) -> tuple[list[EncodedEvent], int]:
        now, drop = time.time_ns() // 1_000_000, self._policy.drop_expired
        chosen, after = unexpired(events, index, limit, now, drop=drop)
        self._counters.expired += after - index - len(chosen)
        return chosen, after

    def _send_edited(self, event: EncodedEvent) -> None:
        """Send an event that announces a gap (KM-8) or the link's partitions (ES-4.6.5-2)."""
        if event.partition in self._gaps:
            self._gaps.discard(event.partition)
            event = event._replace(data=with_gap(event.data))
        self._send_one(event)

    def _send_one(self, event: EncodedEvent) -> None:
        """Send one event; the first after a change announces the partitions (ES-4.6.5-2), a redelivery does not."""
        data, self._announce = with_partitions(event.data, self._positions) if self._announce else event.data, False
        self._link.send(data, event)

    # -- turns and redelivery

    def deliver_later(self) -> None:
        """Deliver after other links."""
        if not self._scheduled:
            self._scheduled = True
            # after other links, when the bytes of this turn have been charged
            self._cluster.turn_budget.later(self._deliver_now)

    def _deliver_now(self) -> None:
        self._scheduled = False
        if self._link.open:
            self._link.attempt(self._deliver)

    def _send_redeliveries(self) -> None:
        while self._redeliveries and self._link.credit > 0:
            self._counters.redelivered += 1
            self._send_one(self._redeliveries.pop())

    # -- drain

    async def _drain(self) -> None:
        """AMQP 2.6.7: find where the partitions end now; send what is before, then give the credit back."""
        ends = await drain_ends(self._cluster, self._topic, self._positions, self._policy.isolation)
        if self._link.open:
            self._drain_ends = ends
            self._enter(ReceiverEvent.ENDS_FOUND)
            self._finish_drain()
        else:
            self._enter(ReceiverEvent.DRAIN_OVER)

    def _finish_drain(self) -> None:
        """Give the credit back if everything has been sent that need not wait for an outcome of this peer."""
        link, waiting = self._link, self._outcomes.unresolved
        free = {each: end for each, end in self._drain_ends.items() if each not in waiting}
        reached = at_ends(self._positions, free) and not self._redeliveries
        if reached or not link.draining or link.credit <= 0:
            self._enter(ReceiverEvent.DRAIN_OVER)
            if reached and link.draining:
                link.drained()
