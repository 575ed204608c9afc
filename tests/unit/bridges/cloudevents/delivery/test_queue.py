"""What a delivery queue does with each answer of its sink (docs/decisions/0023)."""

from __future__ import annotations

import pytest

from bridges.cloudevents.delivery.answers import DONE, Answer, DeliveryOutcome
from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.entry import DeadLetter
from bridges.cloudevents.delivery.gate import SinkGate
from bridges.cloudevents.delivery.pace.circuit_breaker import CircuitBreaker, RetryBackoff
from bridges.cloudevents.delivery.pace.rate_limiter import AttemptRateLimiter
from bridges.cloudevents.delivery.queue import MAX_OFFSETS, DeliveryQueue
from bridges.cloudevents.delivery.queue_settings import QueueSettings
from bridges.cloudevents.delivery.sink import SendAttempt
from bridges.cloudevents.delivery.state import Reason
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.values import Batching, DeliverySettings, Order, RetryLimits

FAILED = Answer(DeliveryOutcome.FAILED, "500", 500)
UNREACHED = Answer(DeliveryOutcome.FAILED, "reset", reached=False)
REFUSED = Answer(DeliveryOutcome.REFUSED, "400", 400)


class Bench:
    """A delivery queue with a clock of its own; pauses have their full length."""

    def __init__(
        self,
        order: Order = "key",
        *,
        window: int = 8,
        rate: float | None = None,
        batch: Batching | None = None,
        limit: int | None = None,
        locations: tuple[CircuitBreaker, CircuitBreaker] | None = None,
        refusals: int = 3,
        within: float = 1000.0,
    ) -> None:
        retry = RetryLimits(1.0, 8.0, 3, within)
        delivery = DeliverySettings(order, 4, window, 1 << 20, 5.0, rate, retry, batch)
        pauses = RetryBackoff(retry.min, retry.max, lambda: 1.0)
        self.sink, self.location = locations or (CircuitBreaker(), CircuitBreaker())
        gate = SinkGate(self.sink, self.location, None if rate is None else AttemptRateLimiter(rate), pauses, 60.0)
        self.counts = DeliveryCounts()
        self.queue = DeliveryQueue(QueueSettings(delivery, refusals, 100.0, limit), self, gate, pauses, self.counts)
        self.dead_letters: list[DeadLetter] = []
        self.reasons: list[Reason] = []
        self.now = 0.0
        self.events: dict[int, CloudEvent] = {}

    def dead_letter(self, dead_letter: DeadLetter) -> None:
        self.dead_letters.append(dead_letter)

    def on_stopped(self, reason: Reason) -> None:
        self.reasons.append(reason)

    def offer(self, *keys: str, size: int = 10, stream: str = "s") -> None:
        """Events with these keys; "" is none."""
        for key in keys:
            at = len(self.events)
            event = CloudEvent({"id": str(at)}, None, b"", key.encode() or None, stream, 0, at, at)
            self.events[at] = event
            self.queue.offer(event, size, self.now)

    def send(self, room: int = 100) -> list[SendAttempt]:
        """What it sends now, with what it reads again for that."""
        for location in self.queue.take_refetches(self.now):
            self.queue.refetched(location, self.events[location.offset], 10)
        return list(self.queue.next_attempts(self.now, room))

    def answer(self, attempt: SendAttempt, answer: Answer = DONE) -> None:
        self.queue.on_answer(attempt, answer, self.now)


def ids(attempts: list[SendAttempt]) -> list[list[str]]:
    return [[event.attributes["id"] for event in attempt.events] for attempt in attempts]


@pytest.mark.parametrize(
    ("order", "sent"), [("key", [["0"], ["1"], ["3"], ["4"]]), ("partition", [["0"]]), ("none", [["0"], ["1"], ["2"]])]
)
def test_order_says_what_is_sent_side_by_side(order: Order, sent: list[list[str]]) -> None:
    bench = Bench(order)
    bench.offer("a", "b", "a", "", "")
    assert ids(bench.send())[: len(sent)] == sent
    assert len(bench.send()) == 0


def test_a_poison_event_ends_as_a_dead_letter_and_its_key_goes_on() -> None:
    bench = Bench()
    bench.offer("a", "a")
    for _ in range(3):
        (attempt,) = bench.send()
        bench.offer("b")
        (other,) = bench.send()
        bench.answer(other)
        bench.answer(attempt, FAILED)
        bench.now += 10
    (dead_letter,) = bench.dead_letters
    assert (dead_letter.location.offset, dead_letter.attempts, dead_letter.answer) == (0, 3, FAILED)
    assert bench.queue.unfinished("s", 0) == [0, 1]
    assert ids(bench.send()) == [["1"]]
    bench.queue.dead_lettered(dead_letter.location)
    assert bench.queue.unfinished("s", 0) == [1]


def test_an_outage_costs_no_event_an_attempt() -> None:
    bench = Bench()
    bench.offer("a", "b", "c")
    for _ in range(50):
        for attempt in bench.send():
            bench.answer(attempt, UNREACHED)
        bench.now = bench.queue.next_wakeup(bench.now) or bench.now + 1
        if bench.now > 90:
            break
    assert bench.dead_letters == []
    assert bench.location.open
    assert not bench.sink.open
    bench.now = max(bench.now, bench.location.probe_at)
    (probe,) = bench.send()
    assert bench.send() == []
    bench.answer(probe)
    assert not bench.location.open
    bench.now += 8
    assert len(bench.send()) == 2


def test_little_is_read_again_until_the_sink_accepts_an_event() -> None:
    """A sink that answers with errors after it was not there: all that waits would be read, and forgotten again."""
    bench = Bench(window=100)
    bench.offer(*map(str, range(50)))
    for attempt in bench.send():
        bench.answer(attempt, UNREACHED)
    bench.now = bench.location.probe_at + 2
    while bench.location.open:
        (probe,) = bench.send()
        bench.answer(probe, FAILED)
        bench.now += 10
    few = bench.send()
    assert len(few) == 4
    bench.answer(few[0])
    assert len(bench.send()) == 50 - 4


def test_an_outage_as_long_as_is_allowed_suspends() -> None:
    bench = Bench()
    bench.offer("a")
    while not bench.reasons and bench.now < 1000:
        for attempt in bench.send():
            bench.answer(attempt, UNREACHED)
        bench.now = bench.queue.next_wakeup(bench.now) or bench.now + 1
    assert bench.reasons == [Reason.UNREACHABLE]
    assert 100 <= bench.now <= 110
    assert bench.queue.buffered_bytes == 0
    bench.queue.resume(bench.now)
    assert ids(bench.send()) == [["0"]]


def test_a_pause_that_the_sink_asks_for_is_kept_by_all_who_use_it_and_is_bounded() -> None:
    first = Bench()
    second = Bench(locations=(first.sink, first.location))
    first.offer("a")
    second.offer("a")
    (attempt,) = first.send()
    first.answer(attempt, Answer(DeliveryOutcome.WAIT, "429", 429, 1e9))
    second.now = first.now = 59.9
    assert first.send() == second.send() == []
    second.now = first.now = 60.0
    assert len(first.send()) == 1
    assert second.send() == []


def test_a_sink_that_is_gone_suspends_and_keeps_the_event() -> None:
    bench = Bench()
    bench.offer("a", "b")
    first, second = bench.send()
    bench.answer(first, Answer(DeliveryOutcome.GONE, "410", 410))
    assert bench.reasons == [Reason.GONE]
    assert bench.send() == []
    bench.answer(second)  # under way by then: it still counts
    assert bench.queue.unfinished("s", 0) == [0]
    bench.queue.resume(bench.now)
    assert ids(bench.send()) == [["0"]]


def test_three_refused_logins_in_a_row_suspend() -> None:
    bench = Bench()
    bench.offer("a")
    for _ in range(3):
        assert bench.reasons == []
        (attempt,) = bench.send()
        bench.answer(attempt, Answer(DeliveryOutcome.CREDENTIAL, "401", 401))
        bench.now += 10
    assert bench.reasons == [Reason.CREDENTIAL]
    assert bench.dead_letters == []


def test_refusals_in_a_row_suspend_before_the_topic_is_drained() -> None:
    bench = Bench("none")
    bench.offer(*"abcdefgh")
    for attempt in bench.send():
        bench.answer(attempt, REFUSED)
    assert len(bench.dead_letters) == 2
    assert bench.reasons == [Reason.REFUSALS]
    assert bench.queue.unfinished("s", 0) == list(range(8))


def test_a_batch_is_filled_or_waits_and_a_refused_one_is_sent_one_by_one() -> None:
    bench = Bench("partition", batch=Batching(3, 1000, 2.0), window=20)
    bench.offer("a", "b")
    assert bench.send() == []
    assert bench.queue.next_wakeup(bench.now) == 2.0
    bench.offer("c", "d")
    (full,) = bench.send()
    assert ids([full]) == [["0", "1", "2"]]
    bench.answer(full, REFUSED)
    (single,) = bench.send()
    assert ids([single]) == [["0"]]
    bench.answer(single)
    (single,) = bench.send()
    bench.answer(single, REFUSED)
    assert [dead_letter.location.offset for dead_letter in bench.dead_letters] == [1]


def test_a_batch_that_is_too_large_is_halved() -> None:
    bench = Bench("none", batch=Batching(8, 1000, 0.0), window=20)
    bench.offer(*"abcdefgh")
    (whole,) = bench.send()
    bench.answer(whole, Answer(DeliveryOutcome.TOO_LARGE, "413", 413))
    assert [len(attempt.events) for attempt in bench.send()] == [4, 4]


def test_a_rate_is_kept() -> None:
    bench = Bench("none", rate=2.0, window=200)
    bench.offer(*("",) * 100)
    sent = 0
    while bench.now < 10:
        for attempt in bench.send():
            sent += 1
            bench.answer(attempt)
        bench.now = bench.queue.next_wakeup(bench.now) or bench.now + 0.5
    assert 20 <= sent <= 22


def test_no_more_deliveries_than_were_asked_for() -> None:
    bench = Bench("none", limit=3)
    bench.offer(*"abcde")
    attempts = bench.send()
    assert len(attempts) == 3
    bench.answer(attempts[0], FAILED)
    bench.now += 10
    (again,) = bench.send()
    for attempt in (*attempts[1:], again):
        bench.answer(attempt)
    assert bench.reasons == [Reason.MAX_EVENTS]
    assert bench.queue.delivered == 3


def test_behind_a_repeating_event_only_offsets_are_kept_and_other_keys_go_on() -> None:
    bench = Bench(window=4)
    bench.offer("a")
    (attempt,) = bench.send()
    bench.answer(attempt, FAILED)
    while bench.queue.accepts_more:
        bench.offer("a")
    assert len(bench.events) == MAX_OFFSETS + 1
    assert bench.queue.buffered_bytes == 10
    bench.now += 1
    (attempt,) = bench.send()
    bench.answer(attempt)
    assert ids(bench.send()) == [["1"]]


def test_an_event_is_given_up_after_its_time_while_others_pass() -> None:
    bench = Bench(within=5.0)
    bench.offer("a")
    (attempt,) = bench.send()
    bench.offer("b")
    bench.answer(bench.send()[0])
    bench.answer(attempt, FAILED)
    bench.now = 6.0
    (attempt,) = bench.send()
    bench.offer("b")
    bench.answer(bench.send()[0])
    bench.answer(attempt, FAILED)
    assert [dead_letter.location.offset for dead_letter in bench.dead_letters] == [0]


def test_answers_to_abandoned_attempts_change_nothing() -> None:
    bench = Bench()
    bench.offer("a")
    (attempt,) = bench.send()
    bench.queue.cancel_attempts()
    bench.answer(attempt)
    assert bench.queue.unfinished("s", 0) == [0]


def test_events_that_come_late_during_an_outage_are_not_forgotten_for_good() -> None:
    bench, wait = Bench("none"), Answer(DeliveryOutcome.WAIT, "503", 503)
    bench.offer("", "", "", "")
    for attempt in bench.send():
        bench.answer(attempt, wait)
    bench.now = 1.0
    bench.answer(bench.send()[0])  # the pause is over, and so is the outage
    late = bench.queue.take_refetches(bench.now)
    assert len(late) == 3
    bench.offer("", "")
    for attempt in bench.queue.next_attempts(bench.now, 2):
        bench.answer(attempt, wait)
    bench.now = 2.5  # the next pause is over before they have been read
    assert not bench.queue.take_refetches(bench.now)
    for location in late:
        bench.queue.refetched(location, bench.events[location.offset], 10)
    sent = list(bench.queue.next_attempts(bench.now, 100))
    assert len(sent) == 1, bench.queue.next_wakeup(bench.now)
    bench.answer(sent[0])
    assert len(bench.send()) == 4


def test_many_events_are_read_at_a_time() -> None:
    """Reading costs the same for one event as for many, so a full window is not topped up after each answer."""
    bench, readings = Bench("none", window=64), 0
    for _ in range(1000):
        if bench.queue.is_low:
            readings += 1
            while bench.queue.accepts_more:
                bench.offer("")
        (attempt,) = bench.send(1)
        bench.answer(attempt)
    assert readings <= 1000 / 16 + 2


def test_events_are_read_while_nothing_is_ready_to_be_sent() -> None:
    bench = Bench("key", window=8)
    bench.offer(*"aaaaaaa")
    bench.send()
    assert bench.queue.is_low, "another key may be sent, however many events wait behind the first"
    bench.offer("b")
    assert not bench.queue.is_low
    assert not bench.queue.accepts_more


def test_a_stream_that_cannot_be_read_holds_up_no_other() -> None:
    bench = Bench("none", window=2)
    bench.offer("", "", "", "", stream="t")
    bench.offer("", "", stream="s")
    for attempt in bench.send():
        bench.answer(attempt)
    waiting = bench.queue.take_refetches(bench.now)
    assert [location.address for location in waiting] == ["t", "t"]
    bench.queue.unreadable |= {"t"}
    bench.queue.refetch_failed("t")
    assert bench.queue.next_wakeup(bench.now) == bench.now
    sent = bench.send()
    assert ids(sent) == [["4"], ["5"]]
    for attempt in sent:
        bench.answer(attempt)
    assert bench.queue.next_wakeup(bench.now) is None  # what is left waits for its stream
    assert bench.queue.take_refetches(bench.now) == []
    bench.queue.unreadable = frozenset()
    assert bench.queue.next_wakeup(bench.now) == bench.now
    assert ids(bench.send()) == [["2"], ["3"]]
