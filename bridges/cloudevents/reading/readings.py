"""What metrics show of a manager's deliveries: states, and counts that never go back when a delivery ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.reading.push import Push
from bridges.cloudevents.reading.subscription import PushedSubscription
from bridges.cloudevents.subscription.model import SinkProtocol


class PutSubscription(Protocol):
    """A subscription as the manager has put it."""

    @property
    def subscription(self) -> PushedSubscription: ...
    @property
    def hold(self) -> Reason | None: ...


class FanReadings:
    """Follows the deliveries of this process; read when metrics are."""

    def __init__(self, known: Mapping[str, PutSubscription], pushes: Mapping[str, Push]) -> None:
        self._known: Final = known
        self._pushes: Final = pushes
        self._followed: Final[dict[int, tuple[SinkProtocol, DeliveryCounts]]] = {}
        self._ended: Final[Counter[tuple[SinkProtocol, str]]] = Counter()

    def follow(self, protocol: SinkProtocol, counts: DeliveryCounts) -> None:
        """Count this delivery, too; again for its next version changes nothing."""
        self._followed.setdefault(id(counts), (protocol, counts))

    def states(self) -> Counter[tuple[SinkProtocol, DeliveryState]]:
        """How many subscriptions are in each state; what another gateway delivers counts as active, or as held."""
        found: Counter[tuple[SinkProtocol, DeliveryState]] = Counter()
        for name, known in self._known.items():
            push = self._pushes.get(name)
            held = DeliveryState.ACTIVE if known.hold is None else known.hold.state
            found[known.subscription.protocol, held if push is None else push.state] += 1
        return found

    def events(self) -> Iterator[tuple[SinkProtocol, str, int]]:
        """Protocol, outcome and how many events had it, since the process began."""
        kept, totals = {id(push.counts) for push in self._pushes.values()}, Counter[tuple[SinkProtocol, str]]()
        for key, (protocol, counts) in list(self._followed.items()):
            named = {(protocol, name): number for name, number in counts.by_name().items()}
            if key in kept:
                totals.update(named)
            else:
                self._ended.update(named)
                del self._followed[key]
        totals.update(self._ended)
        for (protocol, name), number in totals.items():
            yield protocol, name, number

    @property
    def delivering(self) -> int:
        """Subscriptions that this process delivers."""
        return len(self._pushes)

    @property
    def held_bytes(self) -> int:
        """Of the events in memory, about."""
        return sum(push.outlet.bytes for push in self._pushes.values())

    @property
    def oldest(self) -> int | None:
        """The time of the oldest event that is read and not done with, in milliseconds since 1970."""
        times = (push.outlet.oldest for push in self._pushes.values())
        return min((time for time in times if time is not None), default=None)
