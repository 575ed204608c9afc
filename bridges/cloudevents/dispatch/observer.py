"""The metrics of a manager's deliveries: states, and counters that do not decrease when a delivery ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.dispatch.interface import DeliverableSubscription
from bridges.cloudevents.dispatch.journal_rows import JournalRows, row_key
from bridges.cloudevents.dispatch.state_counts import StateCounts
from bridges.cloudevents.dispatch.worker import DeliveryWorker
from bridges.cloudevents.model.values import SinkProtocol
from bridges.cloudevents.reading.filter_evaluator import SharedFilterEvaluator
from bridges.cloudevents.reading.shared_tail import SharedTails

_MAX_ENDED: Final = 1000
"""Number of ended deliveries that are kept apart until the next scrape."""


class DeliveryObserver:
    """Observes the deliveries of this process; evaluated when metrics are scraped."""

    def __init__(
        self,
        states: StateCounts,
        workers: Mapping[str, DeliveryWorker],
        evaluator: SharedFilterEvaluator,
        tails: SharedTails,
    ) -> None:
        self._states: Final = states
        self._workers: Final = workers
        self._evaluator: Final = evaluator
        self._tails: Final = tails
        self._tracked: Final[dict[int, tuple[SinkProtocol, DeliveryCounts]]] = {}
        self.rows: JournalRows | None = None
        """The journal's rows about this manager; None without a journal."""
        self._ended: Final[Counter[tuple[SinkProtocol, str]]] = Counter()

    def track(self, subscription: DeliverableSubscription, streams: Collection[str], counts: DeliveryCounts) -> None:
        """Count this delivery; idempotent for further versions of it."""
        self._tracked.setdefault(id(counts), (subscription.protocol, counts))
        if len(self._tracked) > 2 * len(self._workers) + _MAX_ENDED:
            self._add_up()
        if self.rows is not None:
            self.rows.track(row_key(subscription, streams), counts)

    def journal_rows(self) -> Iterator[dict[str, object] | None]:
        """The fields of the journal's rows about the events pushed since the last call; None: a pause."""
        active = {id(worker.counts) for worker in self._workers.values()}
        return iter(()) if self.rows is None else self.rows.rows(active)

    def states(self) -> Counter[tuple[SinkProtocol, DeliveryState]]:
        """The number of subscriptions per state; those that other gateways deliver count as active, or as on hold."""
        return self._states.by_state()

    def suspended(self) -> Counter[Reason]:
        """The number of suspended subscriptions by reason, as far as this process knows it."""
        return self._states.by_reason()

    def filters(self) -> dict[str, int]:
        """The number of different filters of the streams, by how events are compared with them."""
        return self._evaluator.filters()

    def readers(self) -> dict[str, int]:
        """The number of pairs of a subscription and a stream that read alone (`own`), or at its end (`shared`)."""
        shared = sum(map(len, self._tails))
        return {"own": len(self._evaluator) - shared, "shared": shared}

    def events(self) -> Iterator[tuple[SinkProtocol, str, int]]:
        """The number of events by protocol and outcome since the process started."""
        totals = self._add_up()
        totals.update(self._ended)
        for (protocol, name), number in totals.items():
            yield protocol, name, number

    def _add_up(self) -> Counter[tuple[SinkProtocol, str]]:
        """Add up the counts of the deliveries that continue, and move those of ended ones to `_ended`."""
        active, totals = {id(worker.counts) for worker in self._workers.values()}, Counter[tuple[SinkProtocol, str]]()
        for key, (protocol, counts) in list(self._tracked.items()):
            named = {(protocol, name): number for name, number in counts.by_name().items()}
            if key in active:
                totals.update(named)
            else:
                self._ended.update(named)
                del self._tracked[key]
        return totals

    @property
    def delivering(self) -> int:
        """The number of subscriptions that this process delivers."""
        return len(self._workers)

    @property
    def buffered_bytes(self) -> int:
        """Approximate size of the events in memory, in bytes."""
        return sum(worker.queue.buffered_bytes for worker in self._workers.values())

    @property
    def oldest_timestamp(self) -> int | None:
        """The timestamp of the oldest event that was read and is not finished, in milliseconds since 1970."""
        times = (worker.queue.oldest_timestamp for worker in self._workers.values())
        return min((time for time in times if time is not None), default=None)
