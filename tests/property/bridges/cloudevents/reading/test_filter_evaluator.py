"""The shared filter evaluator: each subscription finds what it would find alone; a batch is read once for all."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridges.cloudevents.events.dialects import types
from bridges.cloudevents.events.event import CloudEvent, event_of
from bridges.cloudevents.events.filter import EVERYTHING, EventFilter
from bridges.cloudevents.reading.filter_evaluator import BatchMatches, SharedFilterEvaluator
from bridges.kafka.consume.batches import BatchCache, FetchedBatch, PartitionBuffer
from bridges.kafka.records.record import KafkaRecord
from tests.support.cloudevents.records import ADDRESS, REQUIRED, StoredRecord, binary_record
from tests.support.plugins.examples import examples

WANTED = (None, "a", "b", "c")
READS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 12), st.integers(0, 12)), max_size=12)


class Reader:
    """A subscription that wants one type, or everything."""

    def __init__(self, type_: str | None) -> None:
        self.filter: EventFilter = EVERYTHING if type_ is None else types([type_])

    def matches(self, event: CloudEvent) -> bool:
        return self.filter.matches(event)


def batch_of(kinds: list[str], value: bytes = b"{}") -> FetchedBatch:
    """A batch with an event of each type; an empty one is no event. Every third offset is missing."""
    records: list[KafkaRecord] = []
    for number, kind in enumerate(kinds):
        record = binary_record(REQUIRED | {"type": kind}, value) if kind else StoredRecord(None, b"")
        record.offset_ = number + number // 2
        records.append(record)
    buffer = PartitionBuffer("t", 0, BatchCache(1 << 20), lambda buffer, offset: None)
    return FetchedBatch(buffer, 0, 2 * len(kinds) + 1, records)


@given(
    st.lists(st.sampled_from(("", "a", "b", "c", "d")), max_size=12),
    st.lists(st.sampled_from(WANTED), min_size=5, max_size=5),
    READS,
    st.integers(0, 12),
)
@settings(max_examples=examples(100), deadline=None)
def test_each_subscription_finds_what_it_would_find_alone(
    kinds: list[str], wanted: list[str | None], reads: list[tuple[int, int, int]], late: int
) -> None:
    evaluator, batch = (
        SharedFilterEvaluator(lambda record, address: event_of(record, address, wrap=False)),
        batch_of(kinds),
    )
    readers = [Reader(each) for each in wanted]
    for reader in readers[:4]:
        evaluator.add(ADDRESS, reader, reader.filter)
    joined = 4
    for turn, (number, first, stop) in enumerate(reads):
        if turn == late:
            evaluator.add(ADDRESS, readers[4], readers[4].filter)
            joined = 5
        reader, low = readers[number % joined], min(first, len(kinds))
        high = max(low, min(stop, len(kinds)))
        events = [event_of(batch.records[at], ADDRESS, wrap=False) for at in range(low, high)]
        alone = [event for event in events if event is not None and reader.filter.matches(event)]
        assert list(evaluator.matching(ADDRESS, batch, reader, low, high)) == alone


def test_a_batch_is_read_twice_at_most_however_many_subscriptions_there_are() -> None:
    read = 0

    def counted(record: KafkaRecord, address: str) -> CloudEvent | None:
        nonlocal read
        read += 1
        return event_of(record, address, wrap=False)

    evaluator, batch = SharedFilterEvaluator(counted), batch_of(["a", "b"] * 50)
    readers = [Reader("abcd"[number % 4]) for number in range(100)]
    for reader in readers:
        evaluator.add(ADDRESS, reader, reader.filter)
    found = [len(list(evaluator.matching(ADDRESS, batch, reader, 0, 100))) for reader in readers]
    assert found == [50, 50, 0, 0] * 25
    assert read == 200
    for reader in readers:
        evaluator.remove(ADDRESS, reader)


def test_subscriptions_that_begin_one_after_the_other_decode_no_event_again() -> None:
    read = 0

    def counted(record: KafkaRecord, address: str) -> CloudEvent | None:
        nonlocal read
        read += 1
        return event_of(record, address, wrap=False)

    evaluator, batch = SharedFilterEvaluator(counted), batch_of(["a", "b"] * 50)
    for number in range(100):
        reader = Reader("abcd"[number % 4])
        evaluator.add(ADDRESS, reader, reader.filter)
        assert len(list(evaluator.matching(ADDRESS, batch, reader, 0, 100))) == (50 if number % 4 < 2 else 0)
    assert read == 300, "one alone, the next one while it was alone, and the first of those that share"


@pytest.mark.parametrize(("count", "size"), [(500, 2), (20, 100_000)])
def test_few_decoded_events_are_kept(count: int, size: int) -> None:
    """2 MiB of them, and those of the batch that is read."""
    evaluator = SharedFilterEvaluator(lambda record, address: event_of(record, address, wrap=False))
    readers = [Reader(None), Reader(None)]
    for reader in readers:
        evaluator.add(ADDRESS, reader, reader.filter)
    for _ in range(10):
        batch = batch_of(["a"] * count, bytes(size))
        assert [len(list(evaluator.matching(ADDRESS, batch, each, 0, count))) for each in readers] == [count, count]
    kept = [each.size for each in evaluator._batches.values() if isinstance(each, BatchMatches)]
    one = count * (size + 1024)
    assert kept == [one] * len(kept)
    assert one < sum(kept) <= 2 * 2**20 + one


def test_who_reads_alone_pays_for_the_events_that_it_takes() -> None:
    """With a full window a subscription asks again after each event: it must not read the batch each time."""
    read: list[KafkaRecord] = []

    def counted(record: KafkaRecord, address: str) -> CloudEvent | None:
        read.append(record)
        return event_of(record, address, wrap=False)

    evaluator, batch, reader = SharedFilterEvaluator(counted), batch_of(["a"] * 100), Reader("a")
    evaluator.add(ADDRESS, reader, reader.filter)
    for at in range(100):
        assert next(iter(evaluator.matching(ADDRESS, batch, reader, at, 100))).offset == batch.records[at].offset()
    assert len(read) == 100
