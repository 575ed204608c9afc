"""The work of one transaction in the order in which it came (AMQP 1.0 part 4, 4.4).

A message to the anonymous terminus may have to wait until its destination is open. All that comes after it in its
transaction waits behind it: so the first message or outcome decides what the transaction works on, and a commit that
follows is about every message before it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from gateway.agenda import Agenda
from gateway.amqp.link.transactions import WaitingWork
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError

MAX_WAITING: Final = 100_000
"""Messages and outcomes of one transaction that may wait for a destination."""


class QueuedWork(WaitingWork, Protocol):
    """A message, an outcome or a discharge whose turn is still to come."""

    def begin(self) -> None:
        """Its turn has come."""


class WorkOrder:
    """What waits in one transaction: at most one message for its destination, and all that came after it."""

    def __init__(self, agenda: Agenda) -> None:
        self._agenda: Final = agenda
        self._first: WaitingWork | None = None
        """What all others wait for."""
        self._queue: deque[QueuedWork] = deque()
        self.discharged = False
        """Whether a discharge has waited: what comes later is no part of the transaction."""

    @property
    def waits(self) -> bool:
        """Whether work that comes now has to wait for its turn."""
        return self._first is not None or bool(self._queue)

    def add(self, work: QueuedWork, scope: str) -> None:
        """Let work wait for its turn; raises AmqpError of `scope`, the controller's, if too much does."""
        if len(self._queue) >= MAX_WAITING:
            text = f"{MAX_WAITING} messages and outcomes of the transaction wait for the destination of an earlier one"
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, text, scope=scope)
        self._queue.append(work)

    def discharge(self, begin: Callable[[], None]) -> None:
        """Let a discharge wait for its turn."""
        self.discharged = True
        self._queue.append(_QueuedDischarge(begin))

    def wait_for(self, work: WaitingWork) -> None:
        """The work whose turn it is has to wait; `go_on` follows."""
        self._first = work

    def go_on(self, work: WaitingWork) -> None:
        """Work waits no more: it is the turn of the next; no effect if it was given up before."""
        if work is self._first:
            self._first = None
            self._agenda.add(self._next())

    def _next(self) -> Iterator[Callable[[], None]]:
        while self._queue and self._first is None:
            yield self._queue.popleft().begin

    def give_up(self) -> None:
        """Drop what waits, because the transaction is rolled back; a discharge that waits learns it."""
        first, self._first = self._first, None
        queue, self._queue = self._queue, deque()
        if first is not None:
            self._agenda.add([first.give_up])
        self._agenda.add(each.give_up for each in queue)

    def keep(self) -> None:
        """A link has ended: account for its messages that wait."""
        if self._first is not None:
            self._first.keep()
        for each in self._queue:
            each.keep()


class _QueuedDischarge:
    """A discharge after work that waits (`QueuedWork`)."""

    def __init__(self, begin: Callable[[], None]) -> None:
        self.begin: Final = begin

    def give_up(self) -> None:
        """It gets its answer: the transaction was rolled back before."""
        self.begin()

    def keep(self) -> None:
        """The link to the coordinator accounts for none of its messages."""
