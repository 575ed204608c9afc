"""Rows of the archive are the same whether C or Python made them, and hold the records (KM-13)."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridges.kafka.consume.batches import BatchCache, FetchedBatch, PartitionBuffer
from bridges.kafka.consume.poll import poll_fallback, poll_native
from bridges.kafka.consume.selection import SharedFilterPass, matching
from bridges.kafka.records.mapping import RecordReader
from bridges.spark.archive.contents.file_layout import restored, stored
from bridges.spark.archive.contents.messages import with_messages
from bridges.spark.archive.write.records import PartitionRecords, RecordDecoder, count_unknown
from bridges.spark.columns.arrow import compile_filter
from bridges.spark.columns.rows import EventRow, record_batch
from gateway.filters.parse.sql import parse_sql
from tests.support.kafka.record_forms import (
    DAMAGED,
    FOREIGN,
    INTACT,
    RECORDS,
    TOPIC,
    RecordClient,
    clients,
    poll_records,
)
from tests.support.plugins.examples import examples


@pytest.fixture(scope="module")
def client() -> Iterator[RecordClient]:
    yield from clients()


def one_by_one(records: Sequence[Any]) -> Any:
    """The columns of the messages, each encoded by the general implementation."""
    reader = RecordReader()

    def message(each: Any) -> bytes:
        return reader.encode(each.key(), each.value(), each.headers(), 0, each.offset(), *each.timestamp())

    return record_batch(
        EventRow(0, each.offset(), each.timestamp()[1], each.key(), message(each)) for each in records
    )


def record_of(row: dict[str, Any]) -> tuple[Any, ...]:
    """The record that a row stands for."""
    record = row["record"]
    value = row["body"] if record["value_in_body"] else record["value"]
    headers = record["headers"] and [(each["key"], each["value"]) for each in record["headers"]]
    return row["offset"], record["timestamp_type"], row["key"], value, headers


def is_unknown(headers: list[tuple[str, bytes | None]]) -> bool:
    return any(
        content is not None
        and ((name == "amqp.bare" and content[:1] not in (b"\1", b"\2"))
             or (name == "amqp.body" and content not in (b"sections", b"message")))
        for name, content in headers
    )  # fmt: skip


def test_buffers_are_released(client: RecordClient) -> None:
    for number in range(20):
        client.producer.produce(TOPIC, b"v" * number, b"k", headers=[("color", b"red"), ("none", None)])
    assert client.producer.flush(10) == 0
    poll_records(poll_fallback, client.messages, 20)
    for run in poll_records(poll_native, client.runs, 20):
        found = list(run.columns())[:-1]
        parts = [list(each) for each in found[3:]]
        assert [sys.getrefcount(found[index]) for index in range(3)] == [2] * 3
        assert [sys.getrefcount(found[index]) for index in range(3, 8)] == [2] * 5
        found.clear()
        kept = [(place, index) for place, own in enumerate(parts) for index, each in enumerate(own) if each]
        assert [sys.getrefcount(parts[place][index]) for place, index in kept] == [2] * len(kept)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=RECORDS, left_out=st.integers(0, 3))
def test_rows_are_the_same_in_c(client: RecordClient, records: list[Any], left_out: int) -> None:
    for key, value, headers in records:
        client.producer.produce(TOPIC, value, key, headers=headers)
    assert client.producer.flush(10) == 0
    runs = poll_records(poll_native, client.runs, len(records))
    messages = [each for part in poll_records(poll_fallback, client.messages, len(records)) for each in part]
    count = max(len(records) - left_out, 1)
    shares, left = [], count
    for run in runs:
        shares.append(PartitionRecords(0, run, min(left, len(run))))
        left -= min(left, len(run))
    found = RecordDecoder().rows(shares)
    assert found.equals(RecordDecoder().rows([PartitionRecords(0, messages, count)]))
    wanted = one_by_one(messages[:count])
    whole = with_messages(found)
    assert whole.select(wanted.schema.names).equals(wanted)
    assert found.column("bare_message").null_count == found.column("head").null_count == count
    assert restored(stored(found)).to_pylist() == found.to_pylist()
    assert with_messages(restored(stored(found))).equals(restored(stored(whole)))
    assert [record_of(row) for row in found.to_pylist()] == [
        (each.offset(), each.timestamp()[0], each.key(), each.value(), each.headers()) for each in messages[:count]
    ]
    assert count_unknown(found) == sum(is_unknown(each.headers() or []) for each in messages[:count])


FILTERS = st.sampled_from(
    [
        "a.color = 'red'",
        "a.color IN ('red', 'blue') AND NOT a.size = 'red'",
        "a.color IS NULL",
        "a.[cloudEvents:color] = 'red'",
        "m.[x-opt-kafka-key] IS NULL",
        "EXISTS(m.[x-opt-kafka-key])",
        "m.[event-streams-group-key] = 'red' OR p.subject = 's'",
        "m.[x-opt-kafka-tombstone]",
        "NOT EXISTS(m.[x-opt-kafka-tombstone]) AND EXISTS(m.[x-opt-kafka-key])",
        "p.content_type IS NULL",
    ]
).map(parse_sql)


@settings(max_examples=examples(200), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(records=st.lists(DAMAGED | FOREIGN | INTACT, min_size=1, max_size=20), predicate=FILTERS)
def test_links_receive_what_a_filter_over_the_rows_finds(
    client: RecordClient, records: list[Any], predicate: Any
) -> None:
    for key, value, headers in records:
        client.producer.produce(TOPIC, value, key, headers=headers)
    assert client.producer.flush(10) == 0
    chosen, log = matching(predicate), PartitionBuffer(TOPIC, 0, BatchCache(1 << 20), lambda log, position: None)
    for runs in (
        poll_records(poll_native, client.runs, len(records)),
        poll_records(poll_fallback, client.messages, len(records)),
    ):
        rows = with_messages(RecordDecoder().rows(PartitionRecords(0, run, len(run)) for run in runs))
        found = rows.filter(compile_filter(predicate)(rows)).column("offset").to_pylist()
        batches = [FetchedBatch(log, run[0].offset(), run[-1].offset() + 1, run) for run in runs]
        assert [event.offset for batch in batches for event in chosen.select(batch)] == found
        together = [SharedFilterPass([chosen]).select(batch)[chosen] for batch in batches]
        assert [event.offset for events in together for event in events] == found
