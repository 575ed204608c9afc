"""Digests that the thread that reads has checked: the same events, and no second look at the content (decision 103)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridges.kafka.consume import _fetch, poll
from bridges.kafka.consume.batches import BatchCache, FetchedBatch, PartitionBuffer
from bridges.kafka.consume.poll import Poller, poll_fallback, poll_native
from bridges.kafka.consume.reader import Fetched, PartitionReader, ReaderOwner
from bridges.kafka.records import digest
from bridges.kafka.records.envelope import Header
from bridges.kafka.records.event import EncodedEvent
from bridges.kafka.records.fast_encode import EventEncoder
from bridges.kafka.records.mapping import to_record
from gateway.amqp.message.sections import walk
from tests.support.amqp.messages import message
from tests.support.kafka.record_forms import (
    CHANGES,
    RECORDS,
    TOPIC,
    USUAL,
    RecordClient,
    changed,
    clients,
    poll_records,
)
from tests.support.plugins.examples import examples

ENCODER = EventEncoder()
Written = tuple[bytes | None, bytes | None, list[Header]]
BIG = [
    message(b"v" * 9000, app={"color": "red"}),
    message(b"v" * 900_000, subject="s"),
    message(b"v", subject="s" * 9000),
    message(b"v" * 5000, app={"a": "x" * 9000}, footer={"x-opt-f": 1}),
]


@pytest.fixture(scope="module")
def client() -> Iterator[RecordClient]:
    yield from clients()


CHECKED = partial(poll_native, check=True, least=0)


def taken(client: RecordClient, records: list[Any], take: Poller = CHECKED) -> tuple[list[Any], list[Any]]:
    """These records in runs, and as the client's own messages."""
    for key, value, headers in records:
        client.producer.produce(TOPIC, value, key, headers=headers)
    assert client.producer.flush(10) == 0
    return poll_records(take, client.runs, len(records)), poll_records(poll_fallback, client.messages, len(records))


def written(data: bytes, change: str = "nothing") -> Written:
    record = to_record(data, walk(data), tombstones=True)
    return changed(record.key, record.value, record.headers, change)


def all_events(runs: list[Any]) -> tuple[list[Any], list[Any], list[bytes]]:
    """Events made together, and one by one, and the messages that may have a ttl."""
    made = [ENCODER.events(run, 0) for run in runs]
    alone = [ENCODER.event(record, 0) for run in runs for record in run]
    return [event for events, _ in made for event in events], alone, [data for _, limited in made for data in limited]


@contextmanager
def without_libcrypto() -> Iterator[None]:
    """Whoever hashes calls the encoder's function for it."""
    _fetch.bind_sha256(0, 0, 0)
    try:
        yield
    finally:
        digest.bind()


def hashed(data: bytes) -> bytes:
    raise AssertionError("hashed again")


def mapped(record: _fetch.Record) -> bytes:
    """What the general path would make."""
    return b"\x00\x53\x77" + b"mapped"


def events_by(run: Any, function: Callable[[bytes], bytes] = hashed) -> list[bytes]:
    """The messages of a run, where `function` makes the digests that are not checked yet."""
    forms, own, names, _ = ENCODER._maker(0)
    with without_libcrypto():
        return [event.data for event in run.events(EncodedEvent, (forms, own, names, function), mapped)[0]]


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS, least=st.sampled_from((-1, 0, 1, 5, 301)))
def test_the_events_are_those_of_the_general_path(client: RecordClient, records: list[Any], least: int) -> None:
    runs, messages = taken(client, records, partial(poll_native, check=True, least=least))
    assert all_events(runs) == all_events(messages)
    buffer = PartitionBuffer(TOPIC, 0, BatchCache(1 << 20), lambda *_: None)
    sizes = [FetchedBatch(buffer, 0, 1, run).size for run in runs]
    unchecked, _ = taken(client, records, poll_native)
    assert [FetchedBatch(buffer, 0, 1, run).size for run in unchecked] == sizes, "bytes that are held"


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_not_passed_off_as_what_was_sent(client: RecordClient, change: str) -> None:
    for data in (*USUAL, *BIG[:1], *BIG[2:]):
        runs, messages = taken(client, [written(data, change)])
        assert all_events(runs) == all_events(messages)


@pytest.mark.parametrize("data", BIG, ids=["value", "most", "before", "both"])
def test_what_is_checked_is_not_hashed_again(client: RecordClient, data: bytes) -> None:
    """Neither if it is intact, nor if it is not: then the general path makes the event."""
    for change in ("nothing", "value"):
        ((late,), _), ((run,), _) = (taken(client, [written(data, change)], take) for take in (poll_native, CHECKED))
        with pytest.raises(AssertionError, match="hashed again"):
            events_by(late)
        (made,) = events_by(run)
        assert made.endswith(data[walk(data).ma :]) if change == "nothing" else made == mapped(run[0])


def test_only_large_values_are_checked_ahead(client: RecordClient) -> None:
    for size in (poll._LARGE - 1, poll._LARGE):
        (run,), _ = taken(client, [written(message(b"v" * size, subject="s"))], partial(poll_native, check=True))
        if size < poll._LARGE:
            with pytest.raises(AssertionError, match="hashed again"):
                events_by(run)
        else:
            assert events_by(run)[0].endswith(b"v" * size)


def test_whoever_has_no_libcrypto_checks_late(client: RecordClient) -> None:
    with without_libcrypto():
        (run,), _ = taken(client, [written(BIG[0])])
    asked: list[bytes] = []

    def late(data: bytes) -> bytes:
        asked.append(data)
        return digest.sha256(data)

    assert events_by(run, late)[0].endswith(BIG[0][walk(BIG[0]).ma :])
    assert len(asked) == 1


@pytest.mark.parametrize("filtered", [True, False])
async def test_the_thread_checks_unless_every_link_filters(client: RecordClient, filtered: bool) -> None:
    """Otherwise records that no filter matches would be hashed for nothing."""
    loop, came = asyncio.get_running_loop(), asyncio.Queue[Fetched]()
    owner = ReaderOwner(lambda _, fetched: came.put_nowait(fetched), print, print, print)
    offset = taken(client, [written(BIG[0])])[0][0][0].offset()
    reader = PartitionReader({"bootstrap.servers": client.bootstrap, "log_level": 0}, loop, owner)
    reader.start()
    try:
        reader.set_filtered((TOPIC, 0), filtered)
        reader.add((TOPIC, 0), offset)
        run: Any = None
        while run is None:
            run = (await asyncio.wait_for(came.get(), 60)).records.get((TOPIC, 0))
        if filtered:
            with pytest.raises(AssertionError, match="hashed again"):
                events_by(run)
        else:
            assert events_by(run)[0].endswith(BIG[0][walk(BIG[0]).ma :])
    finally:
        reader.stop()
        reader.join(10)
