"""A sink on its own: events for it, and the answers that its listener hears."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bridges.cloudevents.delivery.answers import Answer
from bridges.cloudevents.delivery.sink import SendAttempt
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.sinks.common.dialer import Dialer
from gateway.tasks import Supervisor
from tests.support.gateway.process import PATIENCE


class AnswerRecorder:
    """A listener that keeps the answers."""

    def __init__(self) -> None:
        self._answers: asyncio.Queue[tuple[SendAttempt, Answer]] = asyncio.Queue()

    def on_answer(self, attempt: SendAttempt, answer: Answer) -> None:
        self._answers.put_nowait((attempt, answer))

    def on_ready(self) -> None:
        pass

    @property
    def nothing(self) -> bool:
        """Whether there is no answer."""
        return self._answers.empty()

    async def next(self) -> Answer:
        """The next answer, of whichever attempt."""
        async with asyncio.timeout(PATIENCE):
            return (await self._answers.get())[1]


def event(data: bytes | None = b"data", number: int = 1) -> CloudEvent:
    """An event with few attributes."""
    attributes = {"id": str(number), "source": "/s", "type": "t", "specversion": "1.0"}
    return CloudEvent(attributes, "text/plain", data, None, "a", 0, number, 0)


def attempt(data: bytes | None = b"data", number: int = 1, earlier_attempts: int = 0) -> SendAttempt:
    """A sending of one event."""
    return SendAttempt(number, (event(data, number),), earlier_attempts)


def local_dialer(allowed: Callable[[str], bool] = lambda address: True) -> Dialer:
    """A dialer to which every name is this machine."""

    async def names(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    return Dialer(allowed, names)


def strict_supervisor() -> Supervisor:
    """A supervisor of tasks that must not fail."""

    def failed(name: str, error: BaseException) -> None:
        raise AssertionError(f"task {name} failed") from error

    return Supervisor(failed)
