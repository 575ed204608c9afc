"""The bases of sinks: those that count attempts, and those that run each in its own task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt, SinkListener
from gateway.observability.logs import get_logger
from gateway.tasks import Supervisor, until

LOG: Final = get_logger(__name__)


class BoundedSink(ABC):
    """A sink with up to `limit` attempts under way."""

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

    @abstractmethod
    def send(self, attempt: SendAttempt) -> None:
        """See `Sink`."""

    def _finish(self, attempt: SendAttempt, answer: Answer) -> None:
        """An attempt has its answer."""
        self._in_flight -= 1
        if not self._closed:
            self._listener.on_answer(attempt, answer)
            self._listener.on_ready()

    async def close(self, grace: float) -> None:
        """See `Sink`."""
        await until(lambda: not self._in_flight, grace)
        self._closed = True
        await self._release()

    async def _release(self) -> None:  # noqa: B027 - not every sink has a connection of its own
        """Release the connection."""


class ConcurrentSink(BoundedSink):
    """A sink that runs each attempt in its own task."""

    __slots__ = ()

    def send(self, attempt: SendAttempt) -> None:
        """See `Sink`."""
        self._in_flight += 1
        self._supervisor.start(self._send(attempt), "send-attempt")

    async def _send(self, attempt: SendAttempt) -> None:
        try:
            answer = await self._deliver(attempt)
        except Exception as error:
            answer = unexpected(error)
        except BaseException:  # cancelled: there is no answer
            self._in_flight -= 1
            raise
        self._finish(attempt, answer)

    @abstractmethod
    async def _deliver(self, attempt: SendAttempt) -> Answer:
        """Send and wait; every failure is an answer."""


def unexpected(error: Exception) -> Answer:
    """The answer to an attempt that a bug has ended, or a library's; without one, no later event would be sent."""
    LOG.error("attempt failed", error=type(error).__name__, exc_info=error)
    return Answer(DeliveryOutcome.FAILED, "the attempt failed", reached=False)
