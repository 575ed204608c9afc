"""Writers of a replay on a real Kafka: every byte, each record once, and one writer of a number at a time."""

from __future__ import annotations

import json
import re
import struct
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from bridges.kafka.produce import replayer
from bridges.kafka.produce.record_columns import BinaryColumn, OutgoingColumns
from bridges.kafka.produce.replayer import (
    ProgressReader,
    ReplayProgress,
    ReplayTarget,
    ReplayWriter,
    StopRequest,
    fence,
)
from gateway.errors import AmqpError
from tests.support.gateway.process import PATIENCE, free_port, wait_until
from tests.support.servers.kafka import ANY_TIME, KafkaBroker

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]
"""Partition, time, key, value, headers."""
YEAR_10000 = 253_402_300_800_000
ODD: list[Row] = [
    (0, 10_000, None, b"plain", []),
    (1, 1, b"key", None, [("color", b"red")]),
    (0, 2**45, b"\xff\x00", b"\x00" * 5000, [("n", None), ("twice", b"1"), ("twice", b"2"), ("", b"")]),
    (1, YEAR_10000, b"", b"", [("umlaut-\u00fc", "\u00e4".encode())]),
    (0, -1, b"no time", b"v", []),
]


def binaries(values: Sequence[bytes | None]) -> BinaryColumn:
    """A column, in the layout of Arrow."""
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value or b""))
    valid = bytearray(len(values) // 8 + 1)
    for number, value in enumerate(values):
        valid[number >> 3] |= (value is not None) << (number & 7)
    return BinaryColumn(struct.pack(f"{len(ends)}i", *ends), b"".join(value or b"" for value in values), valid, 0)


def columns(rows: Sequence[Row]) -> OutgoingColumns:
    """Records in columns."""
    ends = [0]
    for *_, headers in rows:
        ends.append(ends[-1] + len(headers))
    entries = [entry for *_, headers in rows for entry in headers]
    return OutgoingColumns(
        len(rows),
        struct.pack(f"{len(rows)}i", *(row[0] for row in rows)),
        struct.pack(f"{len(rows)}q", *(row[1] for row in rows)),
        binaries([row[2] for row in rows]),
        binaries([row[3] for row in rows]),
        struct.pack(f"{len(ends)}i", *ends),
        0,
        binaries([name.encode() for name, _ in entries]),
        binaries([content for _, content in entries]),
    )


def values(count: int, first: int = 0) -> OutgoingColumns:
    """Records whose values are numbers."""
    return columns([(number % 2, 10_000 + number, None, b"%d" % number, []) for number in range(first, first + count)])


@contextmanager
def target(broker: KafkaBroker, partitions: int = 2) -> Iterator[ReplayTarget]:
    topic = broker.create_topic(partitions=partitions, config=ANY_TIME)
    yield ReplayTarget({"bootstrap.servers": broker.bootstrap}, topic, partitions, 1_000_000, topic)


def seen(where: ReplayTarget, count: int) -> list[Row]:
    """The committed records of a topic, once there are this many."""
    settings = {"group.id": "look", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = Consumer({**where.settings, **settings, "fetch.wait.max.ms": 10})
    consumer.assign([TopicPartition(where.topic, number, 0) for number in range(where.partitions)])
    found: list[Any] = []

    def complete() -> bool:
        message = consumer.poll(0.2)
        if message is not None and message.error() is None:
            found.append(message)
        return len(found) >= count

    wait_until(complete, f"{count} records")
    assert consumer.poll(0.3) is None
    consumer.close()
    found.sort(key=lambda each: (each.partition(), each.offset()))
    return [
        (each.partition(), each.timestamp()[1], each.key(), each.value(), each.headers() or []) for each in found
    ]


@pytest.fixture(params=[True, False], ids=["native", "fallback"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replayer, "BOUND", request.param)


def test_odd_records_are_written_as_they_were(kafka_broker: KafkaBroker, way: None) -> None:
    with target(kafka_broker) as where:
        writer = ReplayWriter(where, 0)
        writer.write([columns(ODD[:2]), columns(ODD[2:])], {0: 7})
        writer.close()
        assert seen(where, len(ODD)) == sorted(ODD, key=lambda row: row[0])
        assert fence(where) == ReplayProgress({0: 7}, len(ODD))


def test_a_name_is_that_of_the_replays_of_one_log(kafka_broker: KafkaBroker) -> None:
    """The offsets of another log would have been taken for progress, and its events for written."""
    with target(kafka_broker) as where:
        older = ReplayWriter(where, 0)  # of a version that did not note it
        older.write([values(4)], {0: 4})
        older.close()
        orders, payments = replace(where, source="orders (id)"), replace(where, source="payments (id)")
        writer = ReplayWriter(orders, 0)
        assert writer.progress == {0: 4}
        writer.write([values(4)], {0: 8})
        writer.close()
        assert fence(orders) == ReplayProgress({0: 8}, 8)
        said = rf"^the replay {where.name} to topic {where.topic} is one of orders \(id\), not of payments"
        with pytest.raises(AmqpError) as raised:
            fence(payments)
        assert re.search(said, raised.value.description)


def progress(of: ReplayTarget) -> ReplayProgress:
    """What a replay has written; its writers stay as they are."""
    reader = ProgressReader(of)
    try:
        return reader.read()
    finally:
        reader.close()


def test_a_kafka_that_does_not_answer_is_told_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was `Failed to get committed offsets: Local: Timed out`, when two of three brokers were away."""
    monkeypatch.setattr(replayer, "_TIMEOUT", 0.1)
    with pytest.raises(AmqpError) as raised:
        progress(ReplayTarget({"bootstrap.servers": f"127.0.0.1:{free_port()}"}, "t", 1, 1_000_000, "name"))
    said = r"^topic t could not be written, for Kafka does not answer \(.*\): run the same command to continue$"
    assert re.search(said, raised.value.description)


def test_a_topic_that_is_recreated_during_a_replay_is_told_to_the_next_run(kafka_broker: KafkaBroker) -> None:
    """The progress was that of the old topic, whose events are gone; one that is created once more has none of it."""
    with target(kafka_broker) as where:
        first, second = replace(where, identity="first"), replace(where, identity="second")
        writer = ReplayWriter(first, 0)
        writer.write([values(4)], {0: 4})
        writer.close()
        assert progress(first) == ReplayProgress({0: 4}, 4)
        with pytest.raises(AmqpError) as raised:
            progress(second)
        said = f"topic {where.topic} was recreated during the replay {where.name}, so it lacks the events before"
        assert raised.value.description == f"{said}: delete it, create it again, and run the same command"
        kafka_broker.recreate(where.topic, where.partitions)

        def anew() -> bool:
            with suppress(AmqpError):  # Kafka forgets the positions in the old topic a little later than the topic
                return progress(replace(where, identity="third")) == ReplayProgress({}, 0)
            return False

        wait_until(anew, "no progress")


def test_the_later_of_two_writers_fences_the_earlier(kafka_broker: KafkaBroker, way: None) -> None:
    with target(kafka_broker) as where:
        first = ReplayWriter(where, 1)
        first.write([values(4)], {1: 4})
        second = ReplayWriter(where, 1)
        assert second.progress == {1: 4}
        with pytest.raises(AmqpError, match=f"another run of the replay {where.name} has taken over"):
            first.write([values(4, 4)], {1: 8})
        second.write([values(4, 4)], {1: 8})
        assert sorted(int(row[3] or b"") for row in seen(where, 8)) == list(range(8))
        for each in (first, second):
            each.close()


def test_a_transaction_that_was_left_open_is_taken_back(kafka_broker: KafkaBroker) -> None:
    with target(kafka_broker) as where:
        left = Producer(replayer._producer_settings(where, f"{where.group}-0"))
        left.init_transactions(PATIENCE)
        left.begin_transaction()
        left.produce(where.topic, b"never", partition=0)
        left.flush()
        writer = ReplayWriter(where, 0)
        assert writer.progress == {}
        writer.write([values(2)], {0: 2})
        assert [row[3] for row in seen(where, 2)] == [b"0", b"1"]
        writer.close()


def test_a_record_that_kafka_refuses_ends_the_replay_and_nothing_is_written(
    kafka_broker: KafkaBroker, way: None
) -> None:
    with target(kafka_broker) as where:
        writer = ReplayWriter(where, 0)
        large = columns([(0, 1, None, b"x" * 2_000_000, [])])
        with pytest.raises(AmqpError, match=f"topic {where.topic} could not be written: "):
            writer.write([values(2), large], {0: 3})
        writer.close()
        writer = ReplayWriter(where, 0)
        assert writer.progress == {}
        writer.write([values(2)], {0: 2})
        assert len(seen(where, 2)) == 2
        writer.close()


def test_a_topic_that_refuses_the_time_of_a_record_is_named_with_its_settings(kafka_broker: KafkaBroker) -> None:
    topic = kafka_broker.create_topic()
    writer = ReplayWriter(ReplayTarget({"bootstrap.servers": kafka_broker.bootstrap}, topic, 1, 1_000_000, topic), 0)
    with pytest.raises(AmqpError, match=rf"topic {topic} refuses the time of a record: .*after\.max\.ms"):
        writer.write([columns([(0, YEAR_10000, None, b"v", [])])], {0: 1})
    writer.close()


def test_the_times_of_several_records_of_a_batch_are_named_with_the_settings(kafka_broker: KafkaBroker) -> None:
    topic = kafka_broker.create_topic()
    writer = ReplayWriter(ReplayTarget({"bootstrap.servers": kafka_broker.bootstrap}, topic, 1, 1_000_000, topic), 0)
    now = int(time.time() * 1000)
    rows = [(0, when, None, b"v", []) for when in (now, YEAR_10000, now, YEAR_10000)]
    with pytest.raises(AmqpError, match=rf"topic {topic} refuses records: their times .*after\.max\.ms"):
        writer.write([columns(rows)], {0: 4})
    writer.close()


def test_the_progress_of_a_version_with_one_writer_is_continued(kafka_broker: KafkaBroker) -> None:
    with target(kafka_broker) as where:
        earlier = Consumer({**where.settings, "group.id": where.group, "enable.auto.commit": False})
        place = TopicPartition(where.topic, 0, 30, metadata=json.dumps({"0": 10, "1": 20}))
        earlier.commit(offsets=[place], asynchronous=False)
        earlier.close()
        assert fence(where) == ReplayProgress({0: 10, 1: 20}, 30)
        first, second = ReplayWriter(where, 0), ReplayWriter(where, 1)
        first.write([values(2)], {0: 12})
        assert second.progress == {0: 10, 1: 20}
        reader = ProgressReader(where)
        assert reader.read() == ReplayProgress({0: 12, 1: 20}, 32)
        for each in (first, second, reader):
            each.close()


def test_only_the_run_that_was_asked_to_stop_stops(kafka_broker: KafkaBroker) -> None:
    with target(kafka_broker) as where:
        ours, others = StopRequest(where, "ours"), StopRequest(where, "others")
        assert not ours.asked()
        others.ask()
        assert (ours.asked(), others.asked()) == (False, True)
        for each in (ours, others):
            each.close()
