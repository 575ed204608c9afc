"""The base of sinks that run each attempt in its own task."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.sinks.port import SendAttempt, SinkListener
from gateway.tasks import Supervisor, until


class TaskedSink(ABC):
    """A sink with up to `most` concurrent attempts."""

    def __init__(self, most: int, listener: SinkListener, supervisor: Supervisor) -> None:
        self._most: Final = most
        self._listener: Final = listener
        self._supervisor: Final = supervisor
        self._sending = 0
        self._closed = False

    @property
    def room(self) -> int:
        """See `Sink`."""
        return 0 if self._closed else self._most - self._sending

    def send(self, attempt: SendAttempt) -> None:
        """See `Sink`."""
        self._sending += 1
        self._supervisor.start(self._send(attempt), "push")

    async def _send(self, attempt: SendAttempt) -> None:
        try:
            answer = await self._answer(attempt)
        finally:
            self._sending -= 1
        if not self._closed:
            self._listener.answered(attempt, answer)
            self._listener.ready()

    @abstractmethod
    async def _answer(self, attempt: SendAttempt) -> Answer:
        """Send and wait; every failure is an answer."""

    async def close(self, patience: float) -> None:
        """See `Sink`."""
        await until(lambda: not self._sending, patience)
        self._closed = True
        await self._end()

    async def _end(self) -> None:  # noqa: B027 - not every sink has a connection of its own
        """Release the connection."""
