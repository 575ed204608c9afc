"""A receive link on an event log: sends what was read of it, as far as the peer's credit goes (ES 1, 3.2).

KM-12: a log cannot take an event back, so `released` and `modified` mean "again on this link", some times at most."""

from __future__ import annotations

import contextlib
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from functools import partial
from operator import itemgetter
from typing import Any, Final

import structlog

from bridges.kafka.admin.client import Bounds, Topic
from bridges.kafka.cluster import Cluster
from bridges.kafka.consume.batches import FetchedBatch, PartitionBuffer
from bridges.kafka.consume.delivery_policy import PLAIN, DeliveryPolicy
from bridges.kafka.consume.given_back import GivenBack
from bridges.kafka.consume.protocols import PartitionSelections, Selection
from bridges.kafka.consume.redelivery import EditedEvent, after_gap, again, announced
from bridges.kafka.counters import ClusterCounters
from bridges.kafka.groups.checkpointer import DurableTerminus
from bridges.kafka.records.ttl import unexpired
from gateway.amqp.link.outcomes import ACCEPTED, Modified, Outcome, Rejected, Released
from gateway.errors import RESOURCE_DELETED, RESOURCE_LIMIT_EXCEEDED, AmqpError

_DRAIN_QUESTIONS: Final = 3
"""How often a drain asks for the end of the log: "nothing there" must not mean that an answer came late."""
_MAX_HELD: Final = 64 * 1024 * 1024
"""Bytes sent and unsettled above which a link waits for outcomes: they are held for redelivery."""
_BATCHES_AT_ONCE: Final = 4
"""Batches that one link goes through before others on the loop have their turn."""
_offset: Final = itemgetter(2)
log = structlog.get_logger(logger_name="kafka")


class LogReceiver:
    """Handler of one outgoing link; everything here runs on the loop."""

    def __init__(
        self,
        link: Any,
        cluster: Cluster,
        topic: Topic,
        starts: Mapping[int, int],
        counters: ClusterCounters,
        *,
        bound: bool,
        selections: PartitionSelections | None = None,
        terms: DeliveryPolicy = PLAIN,
        held: DurableTerminus | None = None,
    ) -> None:
        self._link: Final = link
        self._cluster: Final = cluster
        self._topic: Final = topic.name
        self._attached_to: Final = topic
        self._positions: Final = dict(starts)
        self._wanted: Final = selections
        self._selections: Final[dict[int, Selection | None]] = {}
        self._terms: Final = terms
        self._terminus: Final = held
        self._tracks: Final = held is not None or terms.strict_order
        self._bound: Final = bound
        self._counters: Final = counters
        self._streams: Final = cluster.scheduler_of(terms.isolation)
        self._logs: Final[dict[int, PartitionBuffer]] = {}
        self._ready: dict[int, None] = {}
        """Partitions whose next batch may be at hand, in the order of their turns."""
        self._given_back: Final = GivenBack(link.keep)
        self._unresolved: Final[dict[int, set[int]]] = {}
        """Offsets by partition that newer events wait for, where order counts (KM-12)."""
        self._announce = self._announces = not bound and terms.annotated
        self._gaps: Final[set[int]] = set()
        self._drain_to: dict[int, Bounds] | None = None
        self._draining = self._pump_soon = self._stalled = self._said_full = False
        self._reading: Any = None  # what it tells the journal, if there is one (`gateway.journal.readings.Reading`)

    def begin(self) -> None:
        """The attach is answered: read as soon as there is credit."""
        self._cluster.watch(self._attached_to, self)
        if self._terminus is not None:
            self._terminus.displaced = self._link.detach
        if (flow := getattr(self._link, "flow", None)) is not None:
            self._reading = flow.reading(self.positions)
        for partition in self._positions:
            self._live_on(partition)

    def _live_on(self, partition: int) -> None:
        selection = None if self._wanted is None else self._wanted.of(partition)
        self._selections[partition] = selection
        log = self._logs[partition] = self._streams.join(self._topic, partition, self)
        log.add_selection(selection)
        self._ready[partition] = None

    def positions(self) -> dict[int, int]:
        """Where a link that goes on after this one has to begin."""
        if self._terminus is None:
            return dict(self._positions)
        position = self._terminus.progress.position
        return {partition: position(partition, read) for partition, read in self._positions.items()}

    # -- from the logs and the cluster

    def arrived(self, partition: int) -> None:
        """What this link waited for has been read."""
        self._ready[partition] = None
        if self._link.open:
            self._told(self._pump)

    def lost(self, partition: int, low: int) -> None:
        """KM-8: retention overtook this link; it goes on at the oldest event and says so."""
        self._told(partial(self._overtaken, partition, low))

    def _overtaken(self, partition: int, low: int) -> None:
        self._counters.gaps += 1
        if self._terms.detach_at_gap:
            self._link.detach(AmqpError(RESOURCE_DELETED, "retention has deleted the next event of this link"))
            return
        self._positions[partition] = low
        self._gaps.add(partition)
        self.arrived(partition)

    def failed(self, error: AmqpError) -> None:
        """Kafka refuses to let us read."""
        self._told(partial(self._link.detach, error))

    def _told(self, step: Callable[[], None]) -> None:
        """Others are told behind this link: a bug of ours ends it, and costs them nothing."""
        self._cluster.supervisor.attempt(partial(self._link.attempt, step), "kafka-link")

    def topic_grew(self, topic: Topic) -> None:
        """KM-9: an agnostic link takes the new partitions, from their beginning, and says so."""
        added = range(len(self._positions), topic.partitions)
        if self._bound or not added:
            return
        self._announce = self._announces
        for partition in added:
            self._positions[partition] = 0
            self._live_on(partition)
        self._pump_later()

    def topic_gone(self) -> None:
        """KM-18."""
        self._link.detach(AmqpError(RESOURCE_DELETED, "the event log behind this address was deleted"))

    # -- from the link

    def on_credit(self) -> None:
        """The peer can take more, or asks for the end of what there is (drain)."""
        self._pump()
        if self._link.draining and not self._draining and self._link.open:
            self._draining = True
            self._cluster.supervisor.start(self._drain(), f"kafka-drain:{self._topic}")

    def on_outcome(self, event: EditedEvent, outcome: Outcome) -> None:
        """The peer is done with an event, or wants it again."""
        if self._stalled:
            self._pump_later()
        if outcome is ACCEPTED:
            if self._tracks:
                self._done(event)
        elif isinstance(outcome, Released):
            self._repeat(event, failed=False)
        elif isinstance(outcome, Modified) and not outcome.undeliverable:
            self._repeat(event, failed=outcome.failed, annotations=outcome.annotations)
        elif isinstance(outcome, Modified | Rejected):
            self._give_up(event, outcome.error if isinstance(outcome, Rejected) else None)
        else:
            self._done(event)

    def takes_batches(self) -> bool:
        """As `handlers.takes_batches`."""
        return True

    def on_accepted(self, events: list[EditedEvent]) -> None:
        """`on_outcome` for several."""
        if self._stalled:
            self._pump_later()
        if self._tracks:
            for event in events:
                self._done(event)

    def _done(self, event: EditedEvent) -> None:
        """Nothing more is owed for this event."""
        terminus = self._terminus
        if terminus is not None:
            terminus.progress.done(event[1], event[2])
            terminus.keeper.changed(terminus)
        waiting = self._unresolved.get(event[1])
        if waiting is not None:
            waiting.discard(event[2])
            if not waiting:
                del self._unresolved[event[1]]
                self._ready[event[1]] = None
                self._pump_later()

    def _give_up(self, event: EditedEvent, error: AmqpError | None) -> None:
        """The consumer cannot take it: with a dead-letter topic it counts as done when it is there."""
        if self._terms.dead_letters is None:
            self._done(event)
            return
        self._given_back.letter(event)
        self._terms.dead_letters.bury(event, error, lambda: self._buried(event), lambda: self._link.open)

    def _buried(self, event: EditedEvent) -> None:
        self._given_back.delivered(event)
        if self._stalled:
            self._pump_later()
        self._done(event)

    def on_detach(self, error: AmqpError | None) -> None:
        """The link is over; its position stays only with a durable terminus or a group."""
        if self._terminus is not None:
            self._terminus.keeper.end(self._terminus, self._link)
        if self._reading is not None:
            self._reading.end()
        self._link.take_unsettled()
        self._cluster.unwatch(self._topic, self)
        for partition, log in self._logs.items():
            log.remove_selection(self._selections[partition])
            self._streams.leave(log, self, self._positions[partition])
        self._logs.clear()
        self._ready.clear()
        self._given_back.end()

    # -- sending

    @property
    def _full(self) -> bool:
        link = self._link
        return bool(link.unsettled_bytes + self._given_back.letters >= _MAX_HELD or link.keeps_too_much)

    def _pump(self) -> None:
        if self._given_back.again:
            self._send_again()
        ready, link, batches, turn = self._ready, self._link, _BATCHES_AT_ONCE, self._cluster.turn_budget
        left = turn.size(link.unsettled_bytes > 0)
        while ready and link.credit > 0 and not self._full:
            if not batches or left <= 0:
                self._pump_later()
                break
            batches -= 1
            partition = next(iter(ready))
            del ready[partition]
            if partition in self._unresolved:
                continue  # `_done` makes it ready again
            batch = self._logs[partition].take(self._positions[partition], self)
            if batch is not None:  # else this link hears when it is there
                ready[partition] = None
                size = self._send_from(batch, partition, left)
                left -= size
                turn.used(size)
        if (full := self._full) and not self._stalled:
            self._held_back()
        self._stalled = full
        if self._drain_to is not None:
            self._finish_drain(self._drain_to)

    def _held_back(self) -> None:
        """Nothing more is sent until outcomes come: said once for each link, counted each time."""
        self._counters.held_back += 1
        if not self._said_full:
            self._said_full = True
            held = {"unsettled": self._link.unsettled_bytes, "dead_letters": self._given_back.letters}
            log.warning("link gets no more until it settles what it has", topic=self._topic, **held, limit=_MAX_HELD)

    def _send_from(self, batch: FetchedBatch, partition: int, size: int) -> int:
        """Send until the batch, the credit or about `size` bytes are used up; return how many were. The hot path."""
        position = self._positions[partition]
        events, each = batch.selected(self._selections[partition]), batch.size // (len(batch.records) + 1)
        most = min(self._link.credit, size // each + 1)
        first = index = 0 if position == batch.start else bisect_left(events, position, key=_offset)
        if batch.has_ttl or self._terms.drop_expired:
            chosen, index = self._living(events, index, most)
        else:
            chosen = events[index : index + most]
            index += len(chosen)
        if self._logs[partition].encoder.routed and self._link.leaving is not None:
            chosen, index = self._crossed(events, chosen, index)
        terminus = self._terminus
        if terminus is not None:
            terminus.progress.sent(partition, map(_offset, chosen))
            terminus.keeper.changed(terminus)
        end = self._positions[partition] = events[index].offset if index < len(events) else batch.end
        if self._reading is not None:
            self._reading.lot(batch.count(position, end), index - first, chosen)
        if not chosen:
            return 0
        self._counters.delivered += len(chosen)
        sent = each * len(chosen)
        if self._announce or self._gaps:
            self._send_edited(chosen[0])
            chosen = chosen[1:]
        self._link.send_all(chosen)
        return sent

    def _crossed(
        self, events: list[EditedEvent], chosen: list[EditedEvent], after: int
    ) -> tuple[list[EditedEvent], int]:
        """Requests of other scopes among them as this reader may get them; from one that is not known yet on, none."""
        go_on = partial(self._go_on, chosen[0].partition) if chosen else None  # they are of one batch
        for at, event in enumerate(chosen):
            data = self._link.leaving(event, go_on)
            if data is None:
                del self._ready[event.partition]
                return chosen[:at], bisect_left(events, event.offset, key=_offset)
            if data is not event.data:
                chosen[at] = event._replace(data=data)
        return chosen, after

    def _go_on(self, partition: int) -> None:
        if partition in self._logs:
            self._ready[partition] = None
            self._pump_later()

    def _living(self, events: list[EditedEvent], index: int, most: int) -> tuple[list[EditedEvent], int]:
        chosen, after = unexpired(events, index, most, time.time_ns() // 1_000_000, drop=self._terms.drop_expired)
        self._counters.expired += after - index - len(chosen)
        return chosen, after

    def _send_edited(self, event: EditedEvent) -> None:
        """What this event has to tell beside itself: KM-8, or ES-4.6.5-2."""
        if event.partition in self._gaps:
            self._gaps.discard(event.partition)
            event = event._replace(data=after_gap(event.data))
        self._send_one(event)

    def _send_one(self, event: EditedEvent) -> None:
        """ES-4.6.5-2: the next transfer tells of a change, this time only: `event` itself stays as it is."""
        data, self._announce = announced(event.data, self._positions) if self._announce else event.data, False
        self._link.send(data, event)

    # -- again

    def _repeat(self, event: EditedEvent, *, failed: bool, annotations: bytes | None = None) -> None:
        if event.attempts >= self._terms.max_redeliveries:
            self._counters.dropped += 1
            self._give_up(event, AmqpError(RESOURCE_LIMIT_EXCEEDED, "too many redeliveries"))
            return
        if self._terms.strict_order:
            self._unresolved.setdefault(event.partition, set()).add(event.offset)
        self._given_back.put(again(event, failed=failed, annotations=annotations, counters=self._counters))
        self._pump_later()

    def _pump_later(self) -> None:
        if not self._pump_soon:
            self._pump_soon = True
            self._cluster.turn_budget.later(self._pump_now)  # behind others, once what was sent in this turn is charged

    def _pump_now(self) -> None:
        self._pump_soon = False
        if self._link.open:
            self._link.attempt(self._pump)

    def _send_again(self) -> None:
        while self._given_back.again and self._link.credit > 0:
            event = self._given_back.next()
            self._counters.redelivered += 1
            self._send_one(event)

    # -- drain

    async def _drain(self) -> None:
        """AMQP 2.6.7: send what is there by now, then give the rest of the credit back."""
        ends: dict[int, Bounds] = {}  # stays so when Kafka is away: there is nothing to wait for
        for _ in range(_DRAIN_QUESTIONS):
            with contextlib.suppress(AmqpError):
                ends = await self._cluster.bounds(self._topic, tuple(self._positions), self._terms.isolation)
                break
        if self._link.open:
            self._drain_to = ends
            self._finish_drain(ends)
        else:
            self._draining = False

    def _finish_drain(self, ends: dict[int, Bounds]) -> None:
        link = self._link
        at_end = all(self._positions.get(each, -1) >= at.high for each, at in ends.items())
        reached = at_end and not self._given_back.again
        if reached or not link.draining or link.credit <= 0:
            self._drain_to, self._draining = None, False
            if reached and link.draining:
                link.drained()
