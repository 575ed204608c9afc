"""The settings of a delivery queue, and the listener that carries out its decisions."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from bridges.cloudevents.delivery.entry import DeadLetter
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.model.values import DeliverySettings

REFETCHES_WHILE_FAILING: Final = 4
"""Number of events that are read again at a time until the sink accepts one: what an outage has left may fail again."""


class QueueSettings(NamedTuple):
    """The delivery settings of a subscription; times in seconds; `limit` is the number of deliveries, or None."""

    delivery: DeliverySettings
    refusals: int
    """Number of refused events in a row that suspend the subscription."""
    suspend_after: float
    """Seconds of failures after which the subscription is suspended."""
    limit: int | None = None


class QueueListener(Protocol):
    """Carries out the queue's decisions; called from within its methods."""

    def dead_letter(self, dead_letter: DeadLetter) -> None:
        """Copy an event to the dead-letter topic, if there is one; calls `DeliveryQueue.dead_lettered` when done."""

    def on_stopped(self, reason: Reason) -> None:
        """The queue has stopped sending."""
