"""What tests of the data pipeline share: records of every kind, what a Kafka consumer sees, rows of an archive."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from tests.support.kafka import KafkaBroker
from tests.support.parts import ROOT, folder

Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record as a consumer sees it."""

    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp: tuple[int, int]
    """The kind as the client numbers it, and milliseconds."""


ODD: Sequence[tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]] = (
    (None, b"plain", []),
    (b"key", b"keyed", [("color", b"red")]),
    (b"\xff\x00", b"\x00\xff" * 50, [("n", None), ("twice", b"1"), ("twice", b"2"), ("", b"")]),
    (b"gone", None, [("color", b"red")]),
    (None, b"", [("x-opt-amqp-body", b"sections")]),
    (None, b"\x00\x53\x77\xa1\x03abc", [("amqp.bare", b"\x01nonsense")]),
    (b"", b"empty key", [("umlaut-\u00fc", "\u00e4".encode())]),
)
"""Records that no gateway wrote: nulls, doubles, binaries, and what looks like ours and is not."""


def produce(broker: KafkaBroker, topic: str, count: int, partitions: int, *, first: int = 0, red: int = 10) -> None:
    """Write odd and plain records round robin; one in `red` of the plain ones has the header color=red."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    for number in range(first, first + count):
        if number < len(ODD):
            key, value, headers = ODD[number]
        else:
            color = b"red" if number % red == 0 else b"blue"
            key, value, headers = b"k%d" % (number % 7), b"v%d" % number, [("color", color)]
        producer.produce(topic, value, key, number % partitions, headers=headers or None, timestamp=10_000 + number)
        producer.poll(0)
    assert producer.flush(30) == 0


def consumed(broker: KafkaBroker, topic: str) -> list[Record]:
    """Everything committed in a topic, by partition and offset."""
    settings = {"bootstrap.servers": broker.bootstrap, "group.id": "look", "enable.auto.commit": False}
    consumer = Consumer({**settings, "enable.partition.eof": True, "isolation.level": "read_committed"})
    partitions = broker.metadata().topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found, ended = [], set()
    while len(ended) < len(partitions):
        message = consumer.poll(10)
        assert message is not None, "no answer of Kafka"
        if message.error():
            ended.add(message.partition())
            continue
        headers = tuple(message.headers() or ())
        place = message.partition(), message.offset()
        found.append(Record(*place, message.key(), message.value(), headers, message.timestamp()))
    consumer.close()
    return sorted(found, key=lambda record: record[:2])


def archived(rows: Sequence[Any]) -> list[Record]:
    """The records that rows of an archive stand for."""
    found = []
    for row in rows:
        record = row.record
        value = row.body if record.value_in_body else record.value
        headers = tuple((each.key, optional(each.value)) for each in record.headers or ())
        stamp = record.timestamp_type, round(row.timestamp.timestamp() * 1000)
        found.append(Record(row.partition, row.offset, optional(row.key), optional(value), headers, stamp))
    return sorted(found, key=lambda each: each[:2])


def optional(value: Any) -> bytes | None:
    """Spark's bytearray as bytes."""
    return None if value is None else bytes(value)


def command(*arguments: object) -> list[str]:
    """The real command `scopegate pipeline …`."""
    return [sys.executable, "-m", "gateway.cli", "pipeline", *map(str, arguments)]


def pipeline(*arguments: object) -> subprocess.CompletedProcess[str]:
    """Run the real command to its end."""
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=ROOT, timeout=300, check=False)


def spark_options() -> tuple[object, ...]:
    """Options for commands that start a small Spark."""
    return "--master", "local[2]", "--jars", folder("spark-kafka"), "--conf", "spark.driver.memory=512m"


def files(archive: Path) -> list[Path]:
    """The Parquet files that a reader of folders sees."""
    return sorted(archive.glob("address=*/date=*/*.parquet"))
