"""Messages that wait for credit or for their outcomes."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final, Protocol

from bridges.cloudevents.delivery.answers import DONE, Answer, DeliveryOutcome
from gateway.amqp.link.outcomes import Accepted, Modified, Outcome, Rejected
from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError

_ABSENT: Final = "not attached in time"
PendingAnswer = asyncio.Future[Answer]


class SendingLink(Protocol):
    """A link that sends the messages."""

    @property
    def credit(self) -> int: ...
    def send(self, data: bytes, waiting: PendingAnswer) -> None:
        """Send one message; its outcome is passed to `Deliveries.outcome`, unless it was sent settled."""


class Deliveries:
    """The messages of one sink, in order."""

    def __init__(self, *, settled: bool) -> None:
        """`settled`: messages are sent settled, and are done once sent."""
        self._settled: Final = settled
        self._loop: Final = asyncio.get_running_loop()
        self._queue: Final[deque[tuple[bytes, PendingAnswer]]] = deque()
        self._sent: Final[dict[PendingAnswer, None]] = {}
        self._link: SendingLink | None = None
        self._absent = _ABSENT

    @property
    def attached(self) -> bool:
        """Whether a link is attached."""
        return self._link is not None

    async def deliver(self, data: bytes, seconds: float) -> Answer:
        """Send the message as soon as a link has credit, and wait for its outcome."""
        waiting: PendingAnswer = self._loop.create_future()
        self._queue.append((data, waiting))
        self.pump()
        try:
            async with asyncio.timeout(seconds):
                return await waiting
        except TimeoutError:
            if self._sent.pop(waiting, self) is None:
                return Answer(DeliveryOutcome.FAILED, "no outcome in time", reached=False)
            reason = "no credit in time" if self.attached else self._absent
            return Answer(DeliveryOutcome.SINK_FAILED, reason, reached=False)

    def pump(self) -> None:
        """Send waiting messages while the link has credit."""
        queue = self._queue
        while queue and (link := self._link) is not None and (queue[0][1].done() or link.credit > 0):
            data, waiting = queue.popleft()
            if not waiting.done():
                self._send(link, data, waiting)

    def _send(self, link: SendingLink, data: bytes, waiting: PendingAnswer) -> None:
        if not self._settled:
            self._sent[waiting] = None
        link.send(data, waiting)
        if self._settled:
            waiting.set_result(DONE)

    def unreachable(self, reason: str = _ABSENT) -> None:
        """Messages that wait in vain from now on fail for this reason; without one, there is a connection."""
        self._absent = reason

    def link_attached(self, link: SendingLink) -> None:
        """A link is attached."""
        self._link = link
        self.pump()

    def on_outcome(self, waiting: PendingAnswer, outcome: Outcome) -> None:
        """The outcome of a message."""
        self._sent.pop(waiting, None)
        if not waiting.done():
            waiting.set_result(answer_of(outcome))

    def link_lost(self, error: AmqpError | None) -> None:
        """The link ended or was refused: unsettled messages fail, and waiting ones count as not sent."""
        self._link = None
        sent = [*self._sent]
        self._sent.clear()
        for each in sent:
            if not each.done():
                each.set_result(
                    Answer(DeliveryOutcome.FAILED, "the link was lost before the outcome came", reached=False)
                )
        self.fail_queued(link_failure(error))

    def fail_queued(self, answer: Answer) -> None:
        """Fail the messages that wait for a link."""
        waiting = [each for _, each in self._queue]
        self._queue.clear()
        for each in waiting:
            if not each.done():
                each.set_result(answer)


def link_failure(error: AmqpError | None) -> Answer:
    """The answer for a link that was refused, or ended."""
    if error is None:
        return Answer(DeliveryOutcome.SINK_FAILED, "the sink has ended the link")
    verdict = DeliveryOutcome.CREDENTIAL if error.condition == UNAUTHORIZED_ACCESS else DeliveryOutcome.SINK_FAILED
    return Answer(verdict, f"the sink has ended or refused the link with {error.condition or 'no condition'}")


def answer_of(outcome: Outcome) -> Answer:
    """Accepted is done; rejected and undeliverable-here are refusals; released and modified messages are sent again."""
    if isinstance(outcome, Accepted):
        return DONE
    if isinstance(outcome, Rejected):
        condition = outcome.error.condition if outcome.error is not None else ""
        return Answer(DeliveryOutcome.REFUSED, f"the sink rejected it with {condition or 'no condition'}")
    if isinstance(outcome, Modified) and outcome.undeliverable:
        return Answer(DeliveryOutcome.REFUSED, "the sink said that it is undeliverable there")
    return Answer(DeliveryOutcome.FAILED, f"the sink said {outcome.name}")
