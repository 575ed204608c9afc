"""A delivery queue under any answers, crashes and credits: order, window and positions hold, and nothing is lost."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridges.cloudevents.delivery.answers import DONE, Answer, DeliveryOutcome
from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.entry import DeadLetter, EventLocation
from bridges.cloudevents.delivery.gate import SinkGate
from bridges.cloudevents.delivery.pace.circuit_breaker import CircuitBreaker, RetryBackoff
from bridges.cloudevents.delivery.pace.rate_limiter import AttemptRateLimiter
from bridges.cloudevents.delivery.positions import Position, dump_positions, load_positions
from bridges.cloudevents.delivery.queue import DeliveryQueue
from bridges.cloudevents.delivery.queue_settings import QueueSettings
from bridges.cloudevents.delivery.sink import SendAttempt
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.values import Batching, DeliverySettings, Order, RetryLimits
from tests.support.plugins.examples import examples

WAITS = Answer(DeliveryOutcome.WAIT, "503", 503)
ANSWERS = (
    DONE,
    DONE,
    DONE,
    Answer(DeliveryOutcome.FAILED, "500", 500),
    Answer(DeliveryOutcome.FAILED, "reset", reached=False),
    Answer(DeliveryOutcome.SINK_FAILED, "302", 302),
    Answer(DeliveryOutcome.CREDENTIAL, "401", 401),
    Answer(DeliveryOutcome.REFUSED, "400", 400),
    Answer(DeliveryOutcome.TOO_LARGE, "413", 413),
    Answer(DeliveryOutcome.WAIT, "429", 429, 3.0),
    WAITS,
    Answer(DeliveryOutcome.GONE, "410", 410),
)
LOG = st.lists(st.tuples(st.integers(0, 1), st.sampled_from((None, b"a", b"b", b"c"))), max_size=30)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("answer"), st.integers(0, 20), st.sampled_from(ANSWERS)),
        st.tuples(st.just("answer"), st.integers(0, 20), st.just(DONE)),
        st.tuples(st.just("send"), st.integers(0, 5), st.just(DONE)),
        st.tuples(st.just("found"), st.integers(0, 5), st.just(DONE)),
        st.tuples(st.just("all"), st.integers(0, 5), st.sampled_from(ANSWERS)),
        st.tuples(st.just("wait"), st.integers(0, 9), st.just(DONE)),
        st.tuples(st.just("crash"), st.just(0), st.just(DONE)),
        st.tuples(st.just("save"), st.just(0), st.just(DONE)),
        st.tuples(st.just("forget"), st.just(0), st.just(DONE)),
    ),
    max_size=60,
)
LONGEST = 5.0
"""Seconds: no pause of a retry, no answer and no batch lets the queue wait for longer."""
BATCHES = st.none() | st.builds(Batching, st.integers(1, 6), st.integers(100, 1000), st.sampled_from((0.0, 2.0)))


class World:
    """A log, a sink and a stored position; the queue between them may crash at any time."""

    def __init__(
        self, log: list[tuple[int, bytes | None]], delivery: DeliverySettings, *, others_failed: bool = False
    ) -> None:
        """`others_failed`: other users of the sink have opened its breaker."""
        self.others_failed = others_failed
        self.partitions: dict[int, list[CloudEvent]] = {0: [], 1: []}
        for number, key in log:
            at = len(self.partitions[number])
            self.partitions[number].append(CloudEvent({"id": f"{number}/{at}"}, None, b"", key, "s", number, at, at))
        self.delivery = delivery
        self.stored = dump_positions({0: Position(0), 1: Position(0)})
        self.now = 100.0
        self.done: dict[tuple[int, int], None] = {}
        self.firsts: list[CloudEvent] = []
        self.begin()

    def begin(self) -> None:
        """A new process, from the stored position on."""
        self.flying: dict[int, SendAttempt] = {}
        self.asked: list[EventLocation] = []
        """What is being read again."""
        self.due: float | None = 0.0
        """When the next turn is, if nothing comes before it."""
        rate = None if self.delivery.rate is None else AttemptRateLimiter(self.delivery.rate)
        pauses = RetryBackoff(self.delivery.retry.min, self.delivery.retry.max, lambda: 1.0)
        breaker = CircuitBreaker()
        for _ in range(5 if self.others_failed else 0):
            breaker.failed(breaker.start_attempt(), self.now, pauses)
        gate = SinkGate(breaker, CircuitBreaker(), rate, pauses, 3600)
        self.queue = DeliveryQueue(QueueSettings(self.delivery, 4, 1000.0), self, gate, pauses, DeliveryCounts())
        self.next, self.todo = {}, {}
        for number, position in load_positions(self.stored).items():
            self.next[number] = position.next
            self.todo[number] = list(position.unfinished)

    def dead_letter(self, dead_letter: DeadLetter) -> None:
        """See `OutletOwner`: it has its copy at once."""
        self.settle(dead_letter.event)
        self.queue.dead_lettered(dead_letter.location)

    def on_stopped(self, reason: Reason) -> None:
        """See `OutletOwner`."""

    def settle(self, event: CloudEvent) -> None:
        """The sink has it, or its copy is written."""
        location = event.partition, event.offset
        if location not in self.done:
            self.firsts.append(event)
        self.done[location] = None

    def read(self, found: int) -> None:
        """Offer what is wanted; what was under way in an earlier process comes before anything newer.

        `found`: how many of the events that are read again have come.
        """
        self.asked += self.queue.take_refetches(self.now)
        for location in self.asked[:found]:
            self.queue.refetched(location, self.partitions[location.partition][location.offset], 100)
        del self.asked[:found]
        for number, events in self.partitions.items():
            while self.todo[number]:
                self.queue.offer(events[self.todo[number].pop(0)], 100, self.now)
            low = self.queue.is_low
            while low and self.queue.accepts_more and self.next[number] < len(events):
                self.queue.offer(events[self.next[number]], 100, self.now)
                self.next[number] += 1

    def send(self, room: int, found: int = 0) -> None:
        """A turn of the subscription, with room for so many attempts."""
        self.read(found)
        attempts = list(self.queue.next_attempts(self.now, room))
        self.flying |= {attempt.number: attempt for attempt in attempts}
        full = len(attempts) == room  # a sink says when it has room again
        self.due = self.now if full else self.queue.next_wakeup(self.now)
        self.check()

    def answer(self, index: int, answer: Answer) -> None:
        """Answer one of the attempts under way."""
        if self.flying:
            number = list(self.flying)[index % len(self.flying)]
            attempt = self.flying.pop(number)
            if answer.outcome is DeliveryOutcome.DONE:
                for event in attempt.events:
                    self.settle(event)
            self.queue.on_answer(attempt, answer, self.now)
            self.due = self.now
        self.check()

    def positions(self) -> dict[int, Position]:
        """How far it has got."""
        return {
            number: Position(at, tuple(sorted({*self.todo[number], *self.queue.unfinished("s", number)})))
            for number, at in self.next.items()
        }

    def save(self) -> None:
        """Write the position."""
        before = load_positions(self.stored)
        self.stored = dump_positions(self.positions())
        after = load_positions(self.stored)
        assert after == self.positions()
        for number, position in after.items():
            assert position.committed >= before[number].committed
            undone = set(position.unfinished)
            for offset in range(position.next):  # all before it is done with, but for what is said not to be
                assert offset in undone or (number, offset) in self.done

    def check(self) -> None:
        """What holds at any time."""
        delivery, flying = self.delivery, [event for each in self.flying.values() for event in each.events]
        assert len(flying) <= delivery.window
        assert self.queue.buffered_bytes <= 100 * delivery.window
        locations = [(event.partition, event.offset) for event in flying]
        assert len(set(locations)) == len(locations)
        if delivery.batch is None:
            lines = [line for event in flying if (line := self.line(event)) is not None]
            assert len(set(lines)) == len(lines)
        if self.queue.is_blocked:
            assert self.queue.buffered_bytes <= 100 * (len(flying) + 1)

    def line(self, event: CloudEvent) -> object:
        """What the event follows others of; None: nothing."""
        if self.delivery.order == "partition":
            return event.partition
        key = event.key if self.delivery.order == "key" else None
        return None if key is None else (event.partition, key)

    def finish(self) -> None:
        """Let everything succeed from now on; a turn comes only with something that has come, or at the time due."""
        while not self.settled() or self.flying:
            if self.queue.reason is not None:
                self.queue.resume(self.now)
                self.due = self.now
            if self.flying:
                self.answer(0, DONE)
            if not self.asked:
                due = self.now if self.settled() else self.due
                assert due is not None, "nothing wakes it"
                assert due <= self.now + LONGEST, "it waits for longer than any pause"
                self.now = max(self.now + 1e-6, due)
            self.send(4, len(self.asked))
        assert len(self.done) == sum(map(len, self.partitions.values()))
        self.save()
        assert {number: len(events) for number, events in self.partitions.items()} == self.next
        assert [position.unfinished for position in load_positions(self.stored).values()] == [(), ()]

    def settled(self) -> bool:
        """Whether there is nothing left to be sent."""
        return all(position == Position(len(self.partitions[at])) for at, position in self.positions().items())

    def in_order(self) -> bool:
        """Whether the first arrivals of each line are in the order of the log."""
        lines: dict[object, list[int]] = {}
        for event in self.firsts:
            if (line := self.line(event)) is not None:
                lines.setdefault(line, []).append(event.offset)
        return all(offsets == sorted(offsets) for offsets in lines.values())


@given(
    LOG,
    STEPS,
    st.sampled_from(("key", "partition", "none")),
    st.integers(1, 6),
    st.sampled_from((None, 2.0)),
    BATCHES,
    st.booleans(),
)
@example(  # events that are read again while an outage begins and ends
    [(0, None)] * 6,
    [
        ("all", 4, WAITS), ("wait", 2, DONE), ("send", 1, DONE), ("found", 1, DONE), ("answer", 0, DONE),
        ("all", 2, WAITS), ("wait", 4, DONE),
    ],
    "none",
    4,
    None,
    None,
    False,
)
@settings(max_examples=examples(200), deadline=None)
def test_nothing_is_lost_and_order_is_kept(
    log: list[tuple[int, bytes | None]],
    steps: list[tuple[str, int, Answer]],
    order: Order,
    window: int,
    rate: float | None,
    batch: Batching | None,
    others_failed: bool,
) -> None:
    retry = RetryLimits(0.5, 4.0, 3, 60.0)
    delivery = DeliverySettings(order, 4, window, 100 * window, 5.0, rate, retry, batch)
    world = World(log, delivery, others_failed=others_failed)
    for step, number, answer in steps:
        match step:
            case "send":
                world.send(number)
            case "all":
                world.send(number)
                for _ in list(world.flying):
                    world.answer(0, answer)
            case "found":
                world.send(number, number)
            case "answer":
                world.answer(number, answer)
            case "wait":
                world.now += number / 2
            case "crash":
                world.begin()
            case "save":
                world.save()
            case "forget":
                world.queue.evict()
    world.finish()
    assert world.in_order()
