"""What the deliveries of a link measure for their rule: every size, and one time at a time."""

from __future__ import annotations

import gc

import pytest

from gateway.amqp.proton.batch import SECOND_BOUNDS, SIZE_BOUNDS, Measures, Received, Unsettled


def test_every_received_size_is_counted_once_by_bucket() -> None:
    received, measures = Received(None), Measures()
    received.add(16, 5)
    received.measures = measures
    for delivery, size in ((32, 0), (48, 64), (64, 65), (80, 1 << 24), (96, (1 << 24) + 1)):
        received.add(delivery, size)
    received.add(32, 7)
    counts, total = measures.sizes
    assert len(counts) == len(SIZE_BOUNDS) + 1
    assert (counts[0], counts[1], counts[-2], counts[-1]) == (2, 1, 1, 1)
    assert total == 64 + 65 + (1 << 25) + 1


def test_one_sent_message_at_a_time_is_timed_until_its_outcome() -> None:
    unsettled, measures = Unsettled(None), Measures()
    unsettled.measures = measures
    for number in (1, 2, 3):
        unsettled.add(number, 10, number)
    unsettled.take(2)
    assert sum(measures.sent[0]) == 0
    unsettled.take(1)
    assert sum(measures.sent[0]) == 1
    assert 0 <= measures.sent[1] < SECOND_BOUNDS[-1]
    unsettled.take(3)
    assert sum(measures.sent[0]) == 1
    unsettled.add(4, 10, 4)
    unsettled.take_all()
    unsettled.add(5, 10, 5)
    unsettled.take(5)
    assert sum(measures.sent[0]) == 2


def test_measures_may_be_changed_and_taken_away() -> None:
    unsettled, first, second = Unsettled(None), Measures(), Measures()
    unsettled.measures = first
    unsettled.add(1, 10, None)
    unsettled.measures = second
    unsettled.take(1)
    unsettled.measures = None
    unsettled.add(2, 10, None)
    unsettled.take(2)
    assert (sum(first.sent[0]), sum(second.sent[0]), unsettled.measures) == (0, 1, None)
    with pytest.raises(TypeError, match="expected `Measures` or None"):
        unsettled.measures = object()  # type: ignore[assignment]
    with pytest.raises(TypeError):
        Received(None).measures = 1  # type: ignore[assignment]
    del unsettled, first
    gc.collect()
    assert second.received == ((0,) * (len(SECOND_BOUNDS) + 1), 0.0)
