"""A receive link on an event log: sends what the fetcher read, as far as the peer's credit goes (ES 1, 3.2).

The position lives in the link and ends with it. KM-12: a log cannot take an event back, so `released` and
`modified` mean "again on this link"; after five times the event is given up for this link.
"""

from __future__ import annotations

import contextlib
import heapq
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from bridges.kafka.admin import Bounds, Topic
from bridges.kafka.cluster import Cluster
from bridges.kafka.counters import Counters
from bridges.kafka.fetcher import Batch, Fetcher, Owner
from bridges.kafka.redelivery import Event, again, announced
from gateway.amqp.outcomes import ACCEPTED, Modified, Outcome, Released
from gateway.errors import RESOURCE_DELETED, AmqpError

MAX_REDELIVERIES: Final = 5
_DRAIN_QUESTIONS: Final = 3
"""How often a drain asks for the end of the log: "nothing there" must not mean that an answer came late."""
_MAX_HELD: Final = 64 * 1024 * 1024
"""Bytes sent and unsettled above which a link waits for outcomes: they are held for redelivery."""


class Receiver:
    """Handler of one outgoing link; everything here runs on the loop."""

    def __init__(
        self,
        link: Any,
        cluster: Cluster,
        topic: Topic,
        partitions: Sequence[int],
        counters: Counters,
        *,
        bound: bool,
    ) -> None:
        self._link: Final = link
        self._cluster: Final = cluster
        self._topic: Final = topic.name
        self._partitions: list[int] = list(partitions)
        self._bound: Final = bound
        self._counters: Final = counters
        self._fetcher: Fetcher | None = None
        self._batches: deque[Batch] = deque()
        self._index = 0
        self._again: list[tuple[int, int, Event]] = []
        self._held = 0
        self._positions: dict[int, int] = {}
        self._announce = not bound
        self._drain_to: dict[int, Bounds] | None = None
        self._draining = False
        self._pump_soon = False
        self._stalled = False

    def owner(self) -> Owner:
        """What the fetcher calls."""
        return Owner(
            self._on_batch,
            self._link.detach,
            self._cluster.trouble,
            self._on_gap,
            self._cluster.readers.discard,
        )

    def begin(self, fetcher: Fetcher) -> None:
        """The attach is answered: read."""
        self._fetcher = fetcher
        self._cluster.readers.add(fetcher)
        self._cluster.watch(self._topic, self)
        fetcher.start()

    # -- from the fetcher and the cluster

    def _on_batch(self, batch: Batch) -> None:
        if self._link.open:
            self._batches.append(batch)
            self._pump()

    def _on_gap(self) -> None:
        self._counters.gaps += 1

    def topic_grew(self, topic: Topic) -> None:
        """KM-9: an agnostic link takes the new partitions, from their beginning, and says so."""
        added = range(len(self._partitions), topic.partitions)
        if self._bound or self._fetcher is None or not added:
            return
        self._partitions.extend(added)
        self._announce = True
        self._fetcher.add(added)

    def topic_gone(self) -> None:
        """KM-18."""
        self._link.detach(AmqpError(RESOURCE_DELETED, f"the event log {self._topic!r} was deleted"))

    # -- from the link

    def on_credit(self) -> None:
        """The peer can take more, or asks for the end of what there is (drain)."""
        self._pump()
        if self._link.draining and not self._draining and self._link.open:
            self._draining = True
            self._cluster.supervisor.start(self._drain(), f"kafka-drain-{self._topic}")

    def on_outcome(self, event: Event, outcome: Outcome) -> None:
        """The peer is done with an event, or wants it again."""
        self._held -= len(event[0])
        if self._stalled:
            self._pump_later()
        if outcome is ACCEPTED:
            return
        if isinstance(outcome, Released):
            self._repeat(event, failed=False)
        elif isinstance(outcome, Modified) and not outcome.undeliverable:
            self._repeat(event, failed=outcome.failed, annotations=outcome.annotations)

    def on_detach(self, error: AmqpError | None) -> None:
        """The link is over, and its position with it."""
        self._link.take_unsettled()
        self._cluster.unwatch(self._topic, self)
        if self._fetcher is not None:
            self._fetcher.stop()
        self._batches.clear()
        self._again.clear()

    # -- sending

    def _pump(self) -> None:
        if self._again:
            self._send_again()
        while self._batches and self._link.credit > 0 and self._held < _MAX_HELD:
            self._send_from(self._batches[0])
        self._stalled = self._held >= _MAX_HELD
        if self._drain_to is not None:
            self._finish_drain(self._drain_to)

    def _send_from(self, batch: Batch) -> None:
        """Send until the batch or the credit is used up; the hot path."""
        index, events = self._index, batch.events
        if self._announce and index < len(events):
            events[index] = self._announced(events[index])
        chosen = events[index : index + self._link.credit]
        # Counted first: on a pre-settled link the outcome comes from within `send`.
        self._held += sum([len(event[0]) for event in chosen])
        self._index += len(chosen)
        self._counters.delivered += len(chosen)
        self._link.send_all(chosen)
        if self._index == len(events):
            self._used_up(batch)

    def _used_up(self, batch: Batch) -> None:
        self._batches.popleft()
        self._index = 0
        self._positions.update(batch.positions)
        if self._fetcher is not None:
            self._fetcher.resume()

    def _announced(self, event: Event) -> Event:
        self._announce = False
        return event._replace(data=announced(event.data, self._partitions))

    # -- again

    def _repeat(self, event: Event, *, failed: bool, annotations: bytes | None = None) -> None:
        if event.attempts >= MAX_REDELIVERIES:
            self._counters.dropped += 1
            return
        repeated = again(event, failed=failed, annotations=annotations)
        # Offset first: what comes back together goes out in the order of the log.
        heapq.heappush(self._again, (repeated.offset, repeated.partition, repeated))
        self._pump_later()

    def _pump_later(self) -> None:
        if not self._pump_soon:
            self._pump_soon = True
            self._cluster.loop.call_soon(self._pump_now)

    def _pump_now(self) -> None:
        self._pump_soon = False
        if self._link.open:
            self._pump()

    def _send_again(self) -> None:
        link = self._link
        while self._again and link.credit > 0:
            _, _, event = heapq.heappop(self._again)
            self._held += len(event.data)
            self._counters.redelivered += 1
            link.send(event.data, event)

    # -- drain

    async def _drain(self) -> None:
        """AMQP 2.6.7: send what is there by now, then give the rest of the credit back."""
        ends: dict[int, Bounds] = {}  # stays so when Kafka is away: there is nothing to wait for
        for _ in range(_DRAIN_QUESTIONS):
            with contextlib.suppress(AmqpError):
                ends = await self._cluster.bounds(self._topic, tuple(self._partitions))
                break
        if self._link.open:
            self._drain_to = ends
            self._finish_drain(ends)
        else:
            self._draining = False

    def _finish_drain(self, ends: dict[int, Bounds]) -> None:
        link = self._link
        reached = not self._again and all(
            self._positions.get(partition, -1) >= bounds.high for partition, bounds in ends.items()
        )
        if reached or not link.draining or link.credit <= 0:
            self._drain_to, self._draining = None, False
            if reached and link.draining:
                link.drained()
