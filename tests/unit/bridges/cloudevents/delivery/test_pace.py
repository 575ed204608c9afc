"""How long a backlog takes at a sink that fails now and then, in virtual time: never longer than its pauses explain."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable, Sequence

import pytest

from bridges.cloudevents.delivery.answers import DONE, Answer, DeliveryOutcome
from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.entry import DeadLetter, EventLocation
from bridges.cloudevents.delivery.gate import SinkGate
from bridges.cloudevents.delivery.pace.circuit_breaker import CircuitBreaker, RetryBackoff
from bridges.cloudevents.delivery.queue import DeliveryQueue
from bridges.cloudevents.delivery.queue_settings import QueueSettings
from bridges.cloudevents.delivery.sink import SendAttempt
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.values import DeliverySettings, Order, RetryLimits

EVENTS, KEYS, ROOM = 1500, 31, 8
RETRY = RetryLimits(0.05, 0.3, 1000, 3600.0)
TIMEOUT = 2.0
"""Seconds that an attempt takes which gets no answer."""
SEEK = 0.3
"""Seconds until events that are not in memory have been read again."""
BATCH = 200
"""Events that come together."""
WAIT = Answer(DeliveryOutcome.WAIT, "503", 503)
FAILED = Answer(DeliveryOutcome.FAILED, "500", 500)
LOST = Answer(DeliveryOutcome.FAILED, "no answer", reached=False)


class Simulation:
    """A delivery queue, a sink and a log; each step happens when it would in a process without other work."""

    def __init__(self, order: Order, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.steps: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = itertools.count()
        self.due: float | None = None
        """When the next turn is, if nothing comes before it."""
        pauses = RetryBackoff(RETRY.min, RETRY.max, self.random.random)
        gate = SinkGate(CircuitBreaker(), CircuitBreaker(), None, pauses, 60.0)
        delivery = DeliverySettings(order, ROOM, 256, 1 << 20, TIMEOUT, None, RETRY, None)
        self.queue = DeliveryQueue(QueueSettings(delivery, 1000, 5 * 86400.0), self, gate, pauses, DeliveryCounts())
        self.room, self.next = ROOM, 0
        self.done: list[int] = []
        self.batch = 0

    def dead_letter(self, dead_letter: DeadLetter) -> None:
        raise AssertionError("no event is at fault")

    def on_stopped(self, reason: Reason) -> None:
        raise AssertionError(reason)

    def at(self, seconds: float, step: Callable[[], None]) -> None:
        """Do something in so many seconds, and then what follows from it."""
        heapq.heappush(self.steps, (self.now + seconds, next(self._serial), step))

    def turn(self) -> None:
        """As `DeliveryWorker` does it."""
        queue = self.queue
        if locations := queue.take_refetches(self.now):
            self.refetch(locations)
        low = queue.is_low
        while low and queue.accepts_more and self.next < EVENTS:
            queue.offer(self.event(self.next), 100, self.now)
            self.next += 1
        for attempt in queue.next_attempts(self.now, self.room):
            self.send(attempt)
        self.due = queue.next_wakeup(self.now)

    def refetch(self, locations: Sequence[EventLocation]) -> None:
        """All at once: soon, if they are in the batch that was read last."""
        before, self.batch = self.batch, locations[-1].offset // BATCH

        def found() -> None:
            for location in locations:
                self.queue.refetched(location, self.event(location.offset), 100)

        self.at(0.001 if {location.offset // BATCH for location in locations} == {before} else SEEK, found)

    def event(self, number: int) -> CloudEvent:
        """An event of the log."""
        return CloudEvent({"id": str(number)}, None, b"", b"%d" % (number % KEYS), "s", 0, number, number)

    def send(self, attempt: SendAttempt) -> None:
        """Answer soon, or late, or not at all."""
        self.room -= 1
        drawn = self.random.random()
        answer = WAIT if drawn < 0.05 else FAILED if drawn < 0.08 else LOST if drawn < 0.1 else DONE
        self.at(TIMEOUT if answer is LOST else self.random.uniform(0.001, 0.01), lambda: self.answer(attempt, answer))

    def answer(self, attempt: SendAttempt, answer: Answer) -> None:
        """The sink has room again."""
        self.room += 1
        if answer is DONE:
            self.done += [event.offset for event in attempt.events]
        self.queue.on_answer(attempt, answer, self.now)

    def run(self) -> float:
        """Go on until all is delivered; return how long it took, in seconds."""
        self.turn()
        while len(self.done) < EVENTS:
            assert self.steps or self.due is not None, f"nothing wakes it after {self.now} s"
            if self.due is not None and (not self.steps or self.due < self.steps[0][0]):
                self.now = self.due
            else:
                self.now, _, step = heapq.heappop(self.steps)
                step()
            self.turn()
        return self.now


@pytest.mark.parametrize("order", ["key", "partition", "none"])
@pytest.mark.parametrize("seed", range(3))
def test_a_sink_that_fails_now_and_then_is_not_left_waiting(order: Order, seed: int) -> None:
    simulation = Simulation(order, seed)
    took = simulation.run()
    assert sorted(simulation.done) == list(range(EVENTS))
    alone = 0.006 + 0.08 * RETRY.max + 0.02 * TIMEOUT  # seconds of an event, when none is under way beside it
    assert took < EVENTS * alone / (1 if order == "partition" else 2)
