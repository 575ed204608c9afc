"""The AMQP sink of a subscription, for every kind of link."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt, SinkListener
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.sinks.amqp.deliveries import Deliveries
from bridges.cloudevents.sinks.common.concurrent_sink import ConcurrentSink
from gateway.tasks import Supervisor


class AmqpSender(Protocol):
    """A sender that attaches on demand."""

    def attach(self) -> None:
        """Attach unless attached; may do nothing while there is no connection."""

    def close(self) -> None:
        """Detach."""


class AmqpSink(ConcurrentSink):
    """Sends each event as a message and waits for its outcome, up to `window` at a time."""

    def __init__(
        self,
        sender: AmqpSender,
        deliveries: Deliveries,
        encode: Callable[[CloudEvent], bytes],
        timeout: float,
        window: int,
        listener: SinkListener,
        supervisor: Supervisor,
    ) -> None:
        super().__init__(window, listener, supervisor)
        self._sender: Final = sender
        self._deliveries: Final = deliveries
        self._encode: Final = encode
        self._timeout: Final = timeout

    async def _deliver(self, attempt: SendAttempt) -> Answer:
        (event,) = attempt.events
        try:
            message = self._encode(event)
        except ValueError:
            return Answer(DeliveryOutcome.REFUSED, "the event cannot be encoded for AMQP")
        if not self._deliveries.attached:
            self._sender.attach()
        return await self._deliveries.deliver(message, self._timeout)

    async def _release(self) -> None:
        self._sender.close()
