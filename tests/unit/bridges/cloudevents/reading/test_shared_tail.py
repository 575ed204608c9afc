"""The shared end of a stream: an event touches the readers that it concerns, however many are parked."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final

import pytest

from bridges.cloudevents.events.dialects import types
from bridges.cloudevents.events.event import CloudEvent, event_of
from bridges.cloudevents.events.filter import EVERYTHING, EventFilter
from bridges.cloudevents.reading.filter_evaluator import SharedFilterEvaluator
from bridges.cloudevents.reading.shared_tail import SharedTail
from bridges.kafka.consume.batches import BatchCache, FetchedBatch, PartitionBuffer
from bridges.kafka.records.record import KafkaRecord
from tests.support.cloudevents.records import ADDRESS, REQUIRED, binary_record

FEW, MANY, RECORDS = 100, 10_000, 100


class FakeLog:
    """One partition, read from a list of records; `arrive` adds some."""

    def __init__(self) -> None:
        self.records: list[KafkaRecord] = []
        self.listener: Any = None
        self.taps = 0
        self.taken: list[int] = []

    def tap(self, topic: object, listener: Any) -> FakeLog:
        self.listener, self.taps = listener, self.taps + 1
        return self

    def take(self, partition: int, offset: int) -> FetchedBatch | None:
        self.taken.append(offset)
        if offset >= len(self.records):
            return None
        buffer = PartitionBuffer("t", 0, BatchCache(1 << 20), lambda buffer, offset: None)
        return FetchedBatch(buffer, offset, len(self.records), self.records[offset:])

    def close(self) -> None:
        self.taps -= 1

    def arrive(self, *kinds: str) -> None:
        for kind in kinds:
            record = binary_record(REQUIRED | {"type": kind})
            record.offset_ = len(self.records)
            self.records.append(record)
        if self.listener is not None and self.taps:
            self.listener.on_records(0)


class Reader:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.unparked: list[Mapping[int, int]] = []
        self.told = 0

    def unpark(self, positions: Mapping[int, int]) -> None:
        self.unparked.append(dict(positions))

    def on_tail_advanced(self) -> None:
        self.told += 1

    def matches(self, event: CloudEvent) -> bool:
        raise AssertionError("the index of the stream finds what matches")


def event_from(record: KafkaRecord, address: str) -> CloudEvent | None:
    return event_of(record, address, wrap=False)


class Place:
    """A tail, and the steps that it has scheduled."""

    def __init__(self) -> None:
        self.log, self.steps = FakeLog(), list[Callable[[], None]]()
        log: Any = self.log
        topic: Any = SimpleNamespace(identity="1")
        self.filters: Final = SharedFilterEvaluator(event_from)
        self.tail: Final = SharedTail(ADDRESS, log, topic, event_from, self.filters.readers_of, self.steps.append)

    def run(self) -> None:
        while self.steps:
            self.steps.pop(0)()

    def park(self, wanted: EventFilter, at: int = 0, reader: Reader | None = None) -> Reader:
        reader = self.add(wanted, reader)
        assert self.tail.park(reader, reader, {0: at})
        return reader

    def add(self, wanted: EventFilter, reader: Reader | None = None) -> Reader:
        reader = Reader() if reader is None else reader
        self.filters.add(ADDRESS, reader, wanted)
        return reader


@pytest.fixture
def place() -> Place:
    return Place()


def touched(place: Place) -> int:
    """How many objects have a method called while the tail reads on."""
    found: dict[int, object] = {}

    def see(frame: Any, event: str, argument: object) -> None:
        owner = frame.f_locals.get("self")
        if event == "call" and isinstance(owner, Reader):
            found[id(owner)] = owner

    sys.setprofile(see)
    try:
        place.run()
    finally:
        sys.setprofile(None)
    return len(found)


def calls(place: Place) -> int:
    """How many Python functions are called while the tail reads on."""
    count = 0

    def see(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(see)
    try:
        place.run()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.row("CE-P-5")
def test_a_batch_that_matches_nothing_costs_the_same_for_100_and_for_10_000() -> None:
    found = {}
    for count in (FEW, MANY):
        place = Place()
        readers = [place.park(types([f"never-{number}"])) for number in range(count)]
        place.run()
        place.log.arrive(*["other"] * RECORDS)
        found[count] = calls(place)
        place.log.arrive(*["other"] * RECORDS)
        assert touched(place) == 0
        assert [place.tail.position(reader, 0) for reader in readers[:2]] == [2 * RECORDS] * 2
    assert found[MANY] <= 1.1 * found[FEW]


def test_one_that_matches_goes_on_at_its_event_and_nobody_else(place: Place) -> None:
    wanted, others = place.park(types(["x"])), [place.park(types(["y"])) for _ in range(3)]
    place.log.arrive("a", "x", "x", "b")
    assert touched(place) == 1
    assert wanted.unparked == [{0: 1}]
    assert [each.unparked for each in others] == [[], [], []]
    assert len(place.tail) == 3
    assert place.tail.position(others[0], 0) == 4


def test_a_subscription_of_the_same_index_that_reads_alone_is_left_alone(place: Place) -> None:
    parked, alone = place.park(types(["x"])), place.add(types(["x"]))
    place.log.arrive("a", "x")
    place.run()
    assert (parked.unparked, alone.unparked) == ([{0: 1}], [])


def test_a_reader_that_is_ahead_gets_nothing_twice_and_one_behind_is_not_taken(place: Place) -> None:
    first, ahead, behind = place.park(types(["y"]), at=2), place.park(EVERYTHING, at=4), Reader()
    assert not place.tail.park(behind, behind, {0: 1})
    assert not place.tail.park(behind, behind, {0: 9, 1: 9})
    place.log.arrive("a", "b", "c", "d", "e")
    place.run()
    assert ahead.unparked == [{0: 4}]
    assert place.tail.leave(first) == {0: 5}


def test_the_tail_is_closed_without_readers_and_begins_anew_where_the_next_one_is(place: Place) -> None:
    only = place.park(types(["x"]))
    assert place.log.taps == 1
    place.log.arrive("x", "a", "x")
    place.run()
    assert (place.log.taps, only.unparked) == (0, [{0: 0}])
    again = place.park(types(["x"]), at=2)
    place.run()
    assert again.unparked == [{0: 2}]


@pytest.mark.parametrize("told", ["on_truncated", "on_failed", "on_partitions_added", "on_topic_gone"])
def test_whatever_happens_to_the_log_is_left_to_the_readers(place: Place, told: str) -> None:
    readers = [place.park(types(["x"])) for _ in range(3)]
    place.log.arrive("a", "b")
    place.run()
    arguments = {"on_truncated": (0, 7), "on_failed": (None,), "on_partitions_added": (2,), "on_topic_gone": ()}
    getattr(place.tail, told)(*arguments[told])
    assert [each.unparked for each in readers] == [[{0: 2}]] * 3
    place.run()
    assert (len(place.tail), place.log.taps) == (0, 0)


def test_positions_are_told_some_at_a_time_and_only_if_they_have_advanced(place: Place) -> None:
    readers = [place.park(types(["x"])) for _ in range(5)]
    place.tail.report_advance(2)
    assert sum(each.told for each in readers) == 0
    place.log.arrive("a")
    place.run()
    for expected in (2, 4, 5, 5):
        place.tail.report_advance(2)
        assert sum(each.told for each in readers) == expected
    assert {each.told for each in readers} == {1}


def test_batches_are_waited_for_before_a_reader_stops_and_until_it_does_again(place: Place) -> None:
    """Else the partition's batches are dropped between, and Kafka is asked anew for what it was waiting for."""

    class Watching(Reader):
        def unpark(self, positions: Mapping[int, int]) -> None:
            super().unpark(positions)
            open_taps.append(place.log.taps)
            place.steps.append(lambda: open_taps.append(place.log.taps))  # its own step, in which it waits

    open_taps: list[int] = []
    reader = Watching()
    place.park(types(["x"]), reader=reader)
    assert place.log.taken == [0], "before the reader leaves"
    place.log.arrive("x")
    place.run()
    assert (open_taps, place.log.taps) == ([1, 1], 0)
