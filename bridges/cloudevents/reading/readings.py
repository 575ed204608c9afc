"""The metrics of a manager's deliveries: states, and counters that do not decrease when a delivery ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Final, Protocol

from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.reading.judge import Judge
from bridges.cloudevents.reading.push import Push
from bridges.cloudevents.reading.push_rows import PushRows, kind_of
from bridges.cloudevents.reading.subscription import PushedSubscription
from bridges.cloudevents.subscription.model import SinkProtocol

_UNSEEN: Final = 1000
"""Number of ended deliveries that are kept apart until the next scrape."""


class PutSubscription(Protocol):
    """A subscription as `Fan.put` received it."""

    @property
    def subscription(self) -> PushedSubscription: ...
    @property
    def hold(self) -> Reason | None: ...


class FanReadings:
    """Observes the deliveries of this process; evaluated when metrics are scraped."""

    def __init__(self, known: Mapping[str, PutSubscription], pushes: Mapping[str, Push], judge: Judge) -> None:
        self._known: Final = known
        self._pushes: Final = pushes
        self._judge: Final = judge
        self._followed: Final[dict[int, tuple[SinkProtocol, DeliveryCounts]]] = {}
        self.rows: PushRows | None = None
        """The journal's rows about this manager; None without a journal."""
        self._ended: Final[Counter[tuple[SinkProtocol, str]]] = Counter()

    def follow(self, subscription: PushedSubscription, streams: Collection[str], counts: DeliveryCounts) -> None:
        """Count this delivery; idempotent for further versions of it."""
        self._followed.setdefault(id(counts), (subscription.protocol, counts))
        if len(self._followed) > 2 * len(self._pushes) + _UNSEEN:
            self._settle()
        if self.rows is not None:
            self.rows.follow(kind_of(subscription, streams), counts)

    def push_rows(self) -> Iterator[dict[str, object] | None]:
        """The fields of the journal's rows about what was pushed since the last call; None: a pause."""
        kept = {id(push.counts) for push in self._pushes.values()}
        return iter(()) if self.rows is None else self.rows.rows(kept)

    def states(self) -> Counter[tuple[SinkProtocol, DeliveryState]]:
        """The number of subscriptions per state; those that other gateways deliver count as active, or as held."""
        found: Counter[tuple[SinkProtocol, DeliveryState]] = Counter()
        for name, known in self._known.items():
            push = self._pushes.get(name)
            held = DeliveryState.ACTIVE if known.hold is None else known.hold.state
            found[known.subscription.protocol, held if push is None else push.state] += 1
        return found

    def suspended(self) -> Counter[Reason]:
        """The number of suspended subscriptions by reason, as far as this process knows it."""
        pushes, known = self._pushes, self._known
        reasons = (pushes[id].outlet.reason if id in pushes else known[id].hold for id in known)
        return Counter(reason for reason in reasons if reason is not None)

    def filters(self) -> dict[str, int]:
        """The number of different filters of the streams, by how events are compared with them."""
        return self._judge.filters()

    def events(self) -> Iterator[tuple[SinkProtocol, str, int]]:
        """The number of events by protocol and outcome since the process started."""
        totals = self._settle()
        totals.update(self._ended)
        for (protocol, name), number in totals.items():
            yield protocol, name, number

    def _settle(self) -> Counter[tuple[SinkProtocol, str]]:
        """Add up the counts of the deliveries that go on, and move those of ended ones to `_ended`."""
        kept, totals = {id(push.counts) for push in self._pushes.values()}, Counter[tuple[SinkProtocol, str]]()
        for key, (protocol, counts) in list(self._followed.items()):
            named = {(protocol, name): number for name, number in counts.by_name().items()}
            if key in kept:
                totals.update(named)
            else:
                self._ended.update(named)
                del self._followed[key]
        return totals

    @property
    def delivering(self) -> int:
        """The number of subscriptions that this process delivers."""
        return len(self._pushes)

    @property
    def held_bytes(self) -> int:
        """Approximate size of the events in memory, in bytes."""
        return sum(push.outlet.bytes for push in self._pushes.values())

    @property
    def oldest(self) -> int | None:
        """The timestamp of the oldest event that was read and is not done, in milliseconds since 1970."""
        times = (push.outlet.oldest for push in self._pushes.values())
        return min((time for time in times if time is not None), default=None)
