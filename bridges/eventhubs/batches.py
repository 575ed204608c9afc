"""Batches in flight: each is checked as a whole, handed to the node in parts, and gets one outcome.

A batch of 1 MB may have 100,000 events. So that they neither keep the event loop from others nor fill the queue to
Kafka, which all links share, only some are checked at once, and only some are without an outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol

from gateway.amqp.link.outcomes import ACCEPTED, SETTLED, Outcome, Rejected
from gateway.errors import AmqpError

if TYPE_CHECKING:
    from gateway.amqp.link.handlers import Delivery, Transfer

IN_FLIGHT: Final = 1024
"""Events of one link's batches that may be without an outcome."""
AT_ONCE: Final = 256
"""Events that are checked before others have their turn: a millisecond, as long as a slice of input."""


class EventBatch:
    """One batch; its size on the connection's account is that of the message, so its events are read when needed."""

    __slots__ = ("_events", "_read", "_unchecked", "delivery", "in_flight", "left", "number", "outcome", "settled")

    def __init__(
        self, delivery: Delivery, settled: bool, read: Callable[[], Iterator[bytes]], number: int | None = None
    ) -> None:
        """`read` gives the events, each checked when it is its turn; `number`: they belong together."""
        self.number: Final = number
        self.delivery: Final = delivery
        self.settled: Final = settled
        self.outcome: Outcome = ACCEPTED
        self.in_flight = 0
        self.left = 0
        """Checked events that the node has not got yet."""
        self._read: Final = read
        self._unchecked: Iterator[bytes] | None = read()
        self._events: Iterator[bytes] = iter(())

    def check(self, most: int | None) -> bool:
        """Check up to `most` events; returns whether all are checked. Raises AmqpError for an event that is none."""
        if self._unchecked is None:
            return True
        found = list(islice(self._unchecked, most))
        if len(found) == most:
            self.left += most
            return False
        self._events = self._read() if self.left else iter(found)
        self.left += len(found)
        self._unchecked = None
        return True

    def take(self, most: int) -> list[Transfer]:
        """The next events for the node, as deliveries of this batch."""
        taken: list[Transfer] = [(self, event, self.settled) for event in islice(self._events, most)]
        self.left -= len(taken)
        self.in_flight += len(taken)
        return taken

    def note(self, outcome: Outcome) -> None:
        """Note the outcome of one event: the worst counts; behind an event that failed, no more are handed over."""
        self.in_flight -= 1
        if outcome is not ACCEPTED and outcome is not SETTLED:
            if not isinstance(self.outcome, Rejected):
                self.outcome = outcome
            self.left = 0


class BatchOwner(Protocol):
    """The link of a queue of batches."""

    @property
    def open(self) -> bool: ...

    def hand_over(self, batch: EventBatch, events: list[Transfer], *, last: bool) -> None:
        """Hand events of a batch to the node; `last`: there are no more of it."""

    def abandoned(self, batch: EventBatch) -> None:
        """The node does not get the other events of this batch."""

    def finish(self, batch: EventBatch) -> None:
        """Settle a batch: each of its events has an outcome."""

    def reject(self, batch: EventBatch, error: AmqpError) -> None:
        """Reject a batch of which nothing was handed over."""


class BatchQueue:
    """The batches of one link, in order."""

    def __init__(self, owner: BatchOwner, soon: Callable[[Callable[[], None]], object]) -> None:
        """`soon` calls a function when others have had their turn."""
        self._owner: Final = owner
        self._soon: Final = soon
        self._waiting: Final[deque[EventBatch]] = deque()
        self._in_flight = 0
        self._running = self._scheduled = self._hurried = False

    def __len__(self) -> int:
        """Batches of which the node has not got everything."""
        return len(self._waiting)

    def put(self, batch: EventBatch) -> None:
        """Add a batch; behind a settled one, for which its client does not wait, nothing waits either."""
        self._waiting.append(batch)
        if batch.settled:
            self._hurried, self._scheduled = True, False
        self._run()

    def settled(self, batch: EventBatch, outcome: Outcome) -> None:
        """One event of a batch has an outcome."""
        had_more = batch.left
        batch.note(outcome)
        self._in_flight -= 1
        if had_more and not batch.left:
            self._waiting.popleft()
            self._owner.abandoned(batch)
        if not batch.left and not batch.in_flight:
            self._owner.finish(batch)
        if self._waiting and self._in_flight <= IN_FLIGHT // 2:
            self._run()

    def clear(self) -> None:
        """The link is over: nothing more is handed over."""
        while self._waiting:
            self._waiting.popleft().left = 0

    def _run(self) -> None:
        """Check and hand over what may be now."""
        if self._running or self._scheduled:
            return
        self._running = True
        try:
            while self._waiting and self._owner.open and self._step(self._waiting[0]):
                pass
            self._hurried = self._hurried and bool(self._waiting)
        finally:
            self._running = False

    def _step(self, batch: EventBatch) -> bool:
        """Go on with the first batch; returns whether more can be done now."""
        try:
            if not batch.check(None if self._hurried else AT_ONCE):
                self._scheduled = True
                self._soon(self._resume)
                return False
        except AmqpError as error:
            self._waiting.popleft()
            self._owner.reject(batch, error)
            return True
        return self._hand_over(batch)

    def _resume(self) -> None:
        self._scheduled = False
        self._run()

    def _hand_over(self, batch: EventBatch) -> bool:
        """Hand over as many events as may be in flight; returns whether there were any."""
        room = batch.left if self._hurried else IN_FLIGHT - self._in_flight
        if room <= 0:
            return False
        events = batch.take(room)
        self._in_flight += len(events)
        if last := not batch.left:
            self._waiting.popleft()
        self._owner.hand_over(batch, events, last=last)
        return True
