"""Replaying an archive to a topic: `python -m tests.bench.cases.replay BOOTSTRAP TOPIC COUNT`.

Prints JSON: rows a second of the replay in tasks, and of one process with confluent-kafka that reads the topic and
writes the same records in transactions of 20,000.
"""

from __future__ import annotations

import json
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from statistics import median
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bridges.kafka.produce.replayer import fence
from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.read import ArchiveSelection
from bridges.spark.archive.store import Archive
from bridges.spark.jobs.replay import replay_target
from bridges.spark.replay.job import write_records
from bridges.spark.session import open_session
from tests.bench.effort import Effort
from tests.bench.figures import Figure
from tests.bench.running import module
from tests.support.gateway.process import fresh_folder
from tests.support.project.parts import folder
from tests.support.servers.kafka import FastKafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTITIONS = 4
ROUNDS = 3
_TRANSACTION = 20_000


def replay(effort: Effort) -> Iterator[Figure]:
    """Rows a second from Parquet to a topic, in transactions, on both cores."""
    broker = FastKafka()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        for created in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("log", "again")]).values():
            created.result(30)
        count = str(effort.archived)
        module("kafka.fill", broker.bootstrap, "log", count, "100", "1000", "plain", seconds=400.0)
        found = json.loads(module("cases.replay", broker.bootstrap, "log", count, seconds=900.0).splitlines()[-1])
        yield Figure("replay", found["replay"], "rows/s", target=50_000.0, details=found)
        yield Figure("replay_plain", found["replay"], "rows/s", found["plain"], "confluent-kafka, one process")
    finally:
        broker.stop()


def _replayed(spark: SparkSession, archive: Archive, bootstrap: str, topic: str, count: int) -> None:
    target = replay_target({"bootstrap.servers": bootstrap}, "again", f"bench-{time.time_ns()}", "bench")
    fence(target)
    selection = ArchiveSelection((topic,))
    stop = threading.Event()
    sent = write_records(spark, archive, selection, target, rate=None, stop=stop, on_progress=lambda _: None)
    assert sent == count, f"{sent} of {count}"


def _plain(bootstrap: str, topic: str, count: int) -> None:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "plain", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "plain", "linger.ms": 5})
    producer.init_transactions(30)
    left = count
    while left:
        producer.begin_transaction()
        batch = min(left, _TRANSACTION)
        left -= batch
        while batch:
            messages = consumer.consume(min(batch, 5000), 10)
            for each in messages:
                where = {"partition": each.partition(), "timestamp": each.timestamp()[1]}
                producer.produce("again", each.value(), each.key(), headers=each.headers(), **where)  # type: ignore[arg-type]
            producer.poll(0)
            batch -= len(messages)
        producer.commit_transaction(60)
    consumer.close()


def _rate(call: Callable[[], None], count: int) -> float:
    started = time.monotonic()
    call()
    return count / (time.monotonic() - started)


def main(bootstrap: str, topic: str, count: str) -> None:
    """Prints what was measured."""
    spark = open_session("bench", master="local[2]", jars=sorted(folder("spark-kafka").glob("*.jar")))
    place, rows = fresh_folder("bench-replay"), int(count)
    archive = Archive(place / "archive")
    with archive.writing():
        while commit_next(spark, archive, KafkaOrigin({"bootstrap.servers": bootstrap}, {topic: topic}), LogBounds()):
            pass
    sides: dict[str, Callable[[], None]] = {
        "replay": lambda: _replayed(spark, archive, bootstrap, topic, rows),
        "plain": lambda: _plain(bootstrap, topic, rows),
    }
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(ROUNDS):
        for name, side in sides.items():
            rates[name].append(_rate(side, rows))
    spark.stop()
    shutil.rmtree(place, ignore_errors=True)
    print(json.dumps({name: median(each) for name, each in rates.items()}))


if __name__ == "__main__":
    main(*sys.argv[1:])
