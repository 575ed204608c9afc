"""The base of sinks that run each attempt in its own task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt, SinkListener
from gateway.observability.logs import get_logger
from gateway.tasks import Supervisor, until

LOG: Final = get_logger(__name__)


class ConcurrentSink(ABC):
    """A sink with up to `most` concurrent attempts."""

    __slots__ = ("_closed", "_in_flight", "_limit", "_listener", "_supervisor")

    def __init__(self, limit: int, listener: SinkListener, supervisor: Supervisor) -> None:
        self._limit: Final = limit
        self._listener: Final = listener
        self._supervisor: Final = supervisor
        self._in_flight = 0
        self._closed = False

    @property
    def free_slots(self) -> int:
        """See `Sink`."""
        return 0 if self._closed else self._limit - self._in_flight

    def send(self, attempt: SendAttempt) -> None:
        """See `Sink`."""
        self._in_flight += 1
        self._supervisor.start(self._send(attempt), "send-attempt")

    async def _send(self, attempt: SendAttempt) -> None:
        try:
            answer = await self._deliver(attempt)
        except Exception as error:  # a bug, or a library's; without an answer, no later event of the key would be sent
            LOG.error("attempt failed", error=type(error).__name__, exc_info=error)
            answer = Answer(DeliveryOutcome.FAILED, "the attempt failed", reached=False)
        except BaseException:  # cancelled: there is no answer
            self._in_flight -= 1
            raise
        self._finish(attempt, answer)

    def _finish(self, attempt: SendAttempt, answer: Answer) -> None:
        """An attempt has its answer."""
        self._in_flight -= 1
        if not self._closed:
            self._listener.on_answer(attempt, answer)
            self._listener.on_ready()

    @abstractmethod
    async def _deliver(self, attempt: SendAttempt) -> Answer:
        """Send and wait; every failure is an answer."""

    async def close(self, grace: float) -> None:
        """See `Sink`."""
        await until(lambda: not self._in_flight, grace)
        self._closed = True
        await self._release()

    async def _release(self) -> None:  # noqa: B027 - not every sink has a connection of its own
        """Release the connection."""
