"""Batches in flight: order, parts, one outcome, credit."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.eventhubs.batches import AT_ONCE, IN_FLIGHT, BatchQueue, EventBatch
from gateway.amqp.link.handlers import Transfer
from gateway.amqp.link.outcomes import ACCEPTED, FAILED, RELEASED, SETTLED, Outcome, Rejected
from gateway.errors import DECODE_ERROR, AmqpError

REJECTED = Rejected(AmqpError(DECODE_ERROR, "no message"))


class Owner:
    """A link whose node gives outcomes when told, or at once."""

    def __init__(self) -> None:
        self.open = True
        self.turns: deque[Callable[[], None]] = deque()
        self.queue = BatchQueue(self, self.turns.append)
        self.events: list[bytes] = []
        self.waiting: deque[EventBatch] = deque()
        self.lasts = 0
        self.gone: list[object] = []
        self.finished: list[tuple[object, Outcome]] = []
        self.refused: list[object] = []
        self.at_once: Outcome | None = None

    def hand_over(self, batch: EventBatch, events: list[Transfer], *, last: bool) -> None:
        self.lasts += last
        for each, event, _ in events:
            assert each is batch
            self.events.append(event)
            if self.at_once is None:
                self.waiting.append(batch)
            else:
                self.queue.settled(batch, self.at_once)

    def abandoned(self, batch: EventBatch) -> None:
        self.gone.append(batch.delivery)

    def finish(self, batch: EventBatch) -> None:
        self.finished.append((batch.delivery, batch.outcome))

    def reject(self, batch: EventBatch, error: AmqpError) -> None:
        self.refused.append(batch.delivery)

    def put(self, delivery: int, count: int, *, settled: bool = False, bad: bool = False) -> None:
        def read() -> Iterator[bytes]:
            yield from (b"%d-%d" % (delivery, number) for number in range(count))
            if bad:
                raise AmqpError(DECODE_ERROR, "no message")

        self.queue.put(EventBatch(delivery, settled, read))

    def turn(self) -> None:
        """Others have had their turn."""
        while self.turns:
            self.turns.popleft()()

    def settle(self, count: int, outcome: Outcome = ACCEPTED) -> None:
        for _ in range(count):
            self.queue.settled(self.waiting.popleft(), outcome)


@pytest.fixture
def owner() -> Owner:
    return Owner()


@pytest.mark.row("EH-9")
def test_a_batch_has_one_outcome_when_each_event_has_one(owner: Owner) -> None:
    owner.put(1, 3)
    owner.settle(2)
    assert owner.finished == []
    owner.settle(1)
    assert owner.finished == [(1, ACCEPTED)]
    assert (owner.events, owner.lasts) == ([b"1-0", b"1-1", b"1-2"], 1)


@pytest.mark.row("EH-9")
@pytest.mark.parametrize(("outcomes", "worst"), [((FAILED, ACCEPTED), FAILED), ((RELEASED, REJECTED), REJECTED),
                                                 ((REJECTED, RELEASED), REJECTED)], ids=range(3))  # fmt: skip
def test_the_worst_outcome_counts(owner: Owner, outcomes: tuple[Outcome, ...], worst: Outcome) -> None:
    owner.put(1, 2)
    for outcome in outcomes:
        owner.settle(1, outcome)
    assert owner.finished == [(1, worst)]


@pytest.mark.row("EH-9")
def test_a_large_batch_is_checked_in_turns_and_handed_over_in_parts(owner: Owner) -> None:
    count = 3 * IN_FLIGHT + 5
    owner.put(1, count)
    assert owner.events == []
    assert len(owner.turns) == 1
    owner.turn()
    assert (len(owner.events), owner.lasts) == (IN_FLIGHT, 0)
    most = 0
    while owner.waiting:
        most = max(most, len(owner.waiting))
        owner.settle(1)
    assert owner.events == [b"1-%d" % number for number in range(count)]
    assert (most, owner.lasts, owner.finished) == (IN_FLIGHT, 1, [(1, ACCEPTED)])


@pytest.mark.row("EH-9")
@pytest.mark.parametrize("count", [0, 1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1, 5 * AT_ONCE])
def test_nothing_of_a_batch_with_an_error_is_handed_over(owner: Owner, count: int) -> None:
    owner.put(1, count, bad=True)
    owner.put(2, 1)
    owner.turn()
    assert (owner.refused, owner.events) == ([1], [b"2-0"])


@pytest.mark.row("EH-9")
@pytest.mark.parametrize("at_once", [True, False])
def test_behind_an_event_that_failed_the_rest_is_not_written(owner: Owner, at_once: bool) -> None:
    owner.at_once = RELEASED if at_once else None
    owner.put(1, 3 * IN_FLIGHT)
    owner.put(2, 1)
    owner.turn()
    while owner.waiting:
        owner.settle(1, RELEASED)
    assert len(owner.events) == IN_FLIGHT + 1
    assert (owner.gone, owner.finished) == ([1], [(1, RELEASED), (2, RELEASED)])


def test_a_settled_batch_waits_for_nothing(owner: Owner) -> None:
    """Its client may leave behind it."""
    owner.put(1, 2 * IN_FLIGHT)
    owner.put(2, 2 * IN_FLIGHT, settled=True)
    assert len(owner.events) == 4 * IN_FLIGHT
    owner.put(3, IN_FLIGHT)
    owner.turn()
    assert len(owner.events) == 4 * IN_FLIGHT, "the next one waits again"


@pytest.mark.parametrize("outcome", [ACCEPTED, FAILED], ids=["written", "not written"])
def test_the_end_of_the_link_ends_the_waiting(owner: Owner, outcome: Outcome) -> None:
    owner.put(1, 3 * IN_FLIGHT)
    owner.put(2, 3)
    owner.turn()
    owner.open = False
    owner.queue.clear()
    owner.settle(IN_FLIGHT, outcome)
    owner.turn()
    assert (len(owner.events), len(owner.queue), owner.gone) == (IN_FLIGHT, 0, [])


@given(st.lists(st.tuples(st.integers(1, 2 * IN_FLIGHT), st.booleans(), st.booleans()), max_size=5), st.data())
def test_order_and_outcomes_of_any_batches(batches: list[tuple[int, bool, bool]], data: st.DataObject) -> None:
    owner, expected = Owner(), list[bytes]()
    for number, (count, settled, bad) in enumerate(batches):
        owner.put(number, count, settled=settled, bad=bad)
        expected += [] if bad else [b"%d-%d" % (number, event) for event in range(count)]
        if data.draw(st.booleans()):
            owner.turn()
        owner.settle(data.draw(st.integers(0, len(owner.waiting))), data.draw(st.sampled_from([ACCEPTED, SETTLED])))
    while owner.waiting or owner.turns:
        owner.turn()
        owner.settle(len(owner.waiting))
    assert owner.events == expected
    assert owner.refused == [number for number, (_, _, bad) in enumerate(batches) if bad]
    good = [number for number, (_, _, bad) in enumerate(batches) if not bad]
    assert owner.finished == [(number, ACCEPTED) for number in good]
    assert owner.lasts == len(good)
