"""Test deliveries: one event that is not in a log, sent ahead of all waiting events (docs/subscriptions.md)."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import Final, NamedTuple

from bridges.cloudevents.delivery.answers import DeliveryOutcome
from bridges.cloudevents.events.event import CloudEvent, rfc3339
from bridges.cloudevents.manager.errors import ApiError, ErrorCode
from bridges.cloudevents.manager.interfaces import SubscriptionDelivery
from bridges.cloudevents.model.values import Json

PROBE_TYPE: Final = "io.scopegate.test"
_MIN_INTERVAL: Final = 5.0
"""Seconds between two tests of one subscription."""
_MAX_REMEMBERED: Final = 10_000
"""Number of subscriptions whose last test is remembered."""


class ProbeResult(NamedTuple):
    """The sink's answer; `status` is its protocol's code, never text from the sink."""

    delivered: bool
    status: int | None
    reason: str
    milliseconds: int

    def document(self) -> dict[str, Json]:
        """The result of the operation `Test`."""
        shown: dict[str, Json] = {"delivered": self.delivered, "ms": self.milliseconds}
        if self.status is not None:
            shown["status"] = self.status
        return shown if self.delivered else {**shown, "reason": self.reason}


class DeliveryProbe:
    """Sends test events, at most one in five seconds to each subscription's sink."""

    def __init__(
        self, source: str, delivery: SubscriptionDelivery, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`source` is the attribute of the events: the manager's path."""
        self._source: Final = source
        self._delivery: Final = delivery
        self._clock: Final = clock
        self._last: Final[dict[str, float]] = {}

    async def send(self, id: str) -> ProbeResult:
        """Send one; raises ApiError if that is too soon, or the subscription is not delivered here."""
        began = self._clock()
        wait = self._last.get(id, began - _MIN_INTERVAL) + _MIN_INTERVAL - began
        if wait > 0:
            text = f"one test of a subscription in {_MIN_INTERVAL:g} seconds"
            raise ApiError(ErrorCode.TOO_MANY, text, retry_after=int(wait) + 1)
        self._remember(id, began)
        answer = await self._delivery.send_test(id, probe_event(self._source, time.time_ns() // 1_000_000))
        if answer is None:
            text = "the subscription is delivered by another gateway, or has no connection to its sink now"
            raise ApiError(ErrorCode.UNAVAILABLE, text, retry_after=int(_MIN_INTERVAL))
        took = round((self._clock() - began) * 1000)
        return ProbeResult(answer.outcome is DeliveryOutcome.DONE, answer.status, answer.reason, took)

    def _remember(self, id: str, now: float) -> None:
        self._last.pop(id, None)
        self._last[id] = now
        if len(self._last) > _MAX_REMEMBERED:
            del self._last[next(iter(self._last))]


def probe_event(source: str, now_ms: int) -> CloudEvent:
    """Make an event that identifies itself as a test."""
    attributes = {"specversion": "1.0", "id": str(uuid.uuid4()), "source": source, "type": PROBE_TYPE}
    if (moment := rfc3339(now_ms)) is not None:
        attributes["time"] = moment
    return CloudEvent(attributes, "application/json", b"{}", None, "", 0, 0, now_ms)
