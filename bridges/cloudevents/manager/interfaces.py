"""The protocols of what a manager uses: delivery, start offsets and the checks of a sink."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.sink import SinkGrant
from bridges.cloudevents.delivery.state import DeliveryState, Reason
from bridges.cloudevents.delivery.status import SubscriptionStatus
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.reading.start_offsets import StartOffsets
from bridges.cloudevents.subscription.subscription import Subscription


class Caller(NamedTuple):
    """The caller of an operation: an authenticated user of the manager's scope."""

    user: str


class SubscriptionDelivery(Protocol):
    """See `dispatch.dispatcher.SubscriptionDispatcher`."""

    async def put(
        self,
        subscription: Subscription,
        revision: int,
        start_offsets: StartOffsets,
        hold_reason: Reason | None = None,
        edition: int | None = None,
    ) -> None: ...
    def renew(self, subscription: Subscription, revision: int) -> None: ...
    async def remove(self, id: str) -> None: ...
    async def status(self, id: str) -> SubscriptionStatus | None: ...
    def state(self, id: str) -> DeliveryState: ...
    def set_applied(self, revision: int) -> None: ...
    async def wait_applied(self, id: str, revision: int) -> bool: ...
    async def resume(self, id: str) -> bool: ...
    async def send_test(self, id: str, event: CloudEvent) -> Answer | None: ...


class FindStartOffsets(Protocol):
    """Finds the start offsets of a subscription; raises AmqpError if Kafka does not answer."""

    async def __call__(self, subscription: Subscription, known: StartOffsets | None) -> StartOffsets: ...


class CheckSink(Protocol):
    """Checks that events may be sent to a sink: its address, and its consent if the policy requires it.

    An unchanged sink is not asked again and keeps the rate that it has `granted`. `callback`: where it may consent
    later. Raises InvalidSubscription if events must not be sent there.
    """

    async def __call__(
        self, subscription: Subscription, previous: Subscription | None, granted: float | None, callback: str | None
    ) -> SinkGrant: ...
