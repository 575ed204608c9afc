"""Messages that wait for a link's credit, and for their outcomes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from bridges.cloudevents.delivery.answers import DONE, Answer, Verdict
from gateway.amqp.link.outcomes import Accepted, Modified, Outcome, Rejected
from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError

Waiting = asyncio.Future[Answer]


class SendingLink(Protocol):
    """What sends the messages."""

    @property
    def credit(self) -> int: ...
    def send(self, data: bytes, waiting: Waiting) -> None:
        """Send one; its outcome is told to `Deliveries.outcome`, unless it was sent settled."""


class Deliveries:
    """The messages of one sink, in the order in which they were given."""

    def __init__(self, *, settled: bool) -> None:
        """`settled`: nobody waits for outcomes; what is sent is done."""
        self._settled: Final = settled
        self._loop: Final = asyncio.get_running_loop()
        self._queue: Final[deque[tuple[bytes, Waiting]]] = deque()
        self._sent: Final[dict[Waiting, None]] = {}
        self._link: SendingLink | None = None

    @property
    def attached(self) -> bool:
        """Whether there is a link."""
        return self._link is not None

    async def deliver(self, data: bytes, seconds: float) -> Answer:
        """Send as soon as there is a link with credit, and wait for the outcome."""
        waiting: Waiting = self._loop.create_future()
        self._queue.append((data, waiting))
        self.pump()
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except TimeoutError:
            if self._sent.pop(waiting, self) is None:
                return Answer(Verdict.FAILED, "no outcome in time", reached=False)
            reason = "no credit in time" if self.attached else "not attached in time"
            return Answer(Verdict.SINK_FAILED, reason, reached=False)

    def pump(self) -> None:
        """Send what the link has credit for."""
        queue = self._queue
        while queue and (link := self._link) is not None and (queue[0][1].done() or link.credit > 0):
            data, waiting = queue.popleft()
            if not waiting.done():
                self._send(link, data, waiting)

    def _send(self, link: SendingLink, data: bytes, waiting: Waiting) -> None:
        if not self._settled:
            self._sent[waiting] = None
        link.send(data, waiting)
        if self._settled:
            waiting.set_result(DONE)

    def open(self, link: SendingLink) -> None:
        """There is a link now."""
        self._link = link
        self.pump()

    def outcome(self, waiting: Waiting, outcome: Outcome) -> None:
        """The word on a message."""
        self._sent.pop(waiting, None)
        if not waiting.done():
            waiting.set_result(answer_of(outcome))

    def gone(self, error: AmqpError | None) -> None:
        """The link has ended, or was not granted: what it has not answered is lost, and what waited was not sent."""
        self._link = None
        sent = [*self._sent]
        self._sent.clear()
        for each in sent:
            if not each.done():
                each.set_result(Answer(Verdict.FAILED, "the link was lost before the outcome came", reached=False))
        self.refused(no_link(error))

    def refused(self, answer: Answer) -> None:
        """What waits for a link is not sent."""
        waiting = [each for _, each in self._queue]
        self._queue.clear()
        for each in waiting:
            if not each.done():
                each.set_result(answer)


def no_link(error: AmqpError | None) -> Answer:
    """What is said of a link that is refused, or ends."""
    if error is None:
        return Answer(Verdict.SINK_FAILED, "the sink has ended the link")
    verdict = Verdict.CREDENTIAL if error.condition == UNAUTHORIZED_ACCESS else Verdict.SINK_FAILED
    return Answer(verdict, f"the sink has ended or refused the link with {error.condition or 'no condition'}")


def answer_of(outcome: Outcome) -> Answer:
    """Accepted is done; rejected, or undeliverable here, is refused; released and modified are repeated."""
    if isinstance(outcome, Accepted):
        return DONE
    if isinstance(outcome, Rejected):
        condition = outcome.error.condition if outcome.error is not None else ""
        return Answer(Verdict.REFUSED, f"the sink rejected it with {condition or 'no condition'}")
    if isinstance(outcome, Modified) and outcome.undeliverable:
        return Answer(Verdict.REFUSED, "the sink said that it is undeliverable there")
    return Answer(Verdict.FAILED, f"the sink said {outcome.name}")
