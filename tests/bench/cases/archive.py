"""Archiving a topic against Spark's Kafka source alone: `python -m tests.bench.cases.archive BOOTSTRAP TOPIC COUNT`.

Prints JSON: records a second of both, in one Spark, after a round that compiles; and the cost of decoding alone.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bridges.spark.archive.job import LogBounds, commit_next
from bridges.spark.archive.kafka_origin import KafkaOrigin
from bridges.spark.archive.ranges import Range
from bridges.spark.archive.store import Archive
from bridges.spark.kafka_settings import java_settings
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


def archive(effort: Effort) -> Iterator[Figure]:
    """Rows a second into Parquet, all columns and the record, on both cores."""
    broker = FastKafka()
    try:
        topic = "archive"
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        admin.create_topics([NewTopic(topic, num_partitions=PARTITIONS, replication_factor=1)])[topic].result(30)
        count = str(effort.archived)
        module("kafka.fill", broker.bootstrap, topic, count, "100", "1000", "plain", seconds=400.0)
        found = json.loads(module("cases.archive", broker.bootstrap, topic, count, seconds=1200.0).splitlines()[-1])
        what = "Spark's Kafka source, all columns, to nowhere"
        yield Figure("archive", found["archive"], "rows/s", found["source"], what, details=found)
    finally:
        broker.stop()


def _timed(call: Callable[[], object], rows: int) -> float:
    started = time.monotonic()
    call()
    return rows / (time.monotonic() - started)


def measure(spark: SparkSession, bootstrap: str, topic: str, count: int) -> dict[str, float]:
    """Both sides, and the decoding without writing."""
    origin = KafkaOrigin({"bootstrap.servers": bootstrap}, {topic: topic})
    place = fresh_folder("bench-archive")

    def archived() -> None:
        target = Archive(place / "archive")
        with target.writing():
            commit = commit_next(spark, target, origin, LogBounds(offsets=count))
        assert commit is not None
        assert sum(each.rows for each in commit.ranges) == count
        shutil.rmtree(target.path)

    def source() -> None:
        reader = spark.read.format("kafka").options(**java_settings({"bootstrap.servers": bootstrap}))
        reader = reader.option("subscribe", topic).option("includeHeaders", "true").option("minPartitions", "2")
        reader.option("kafka.max.poll.records", "5000").load().write.format("noop").mode("overwrite").save()

    def decoded() -> None:
        (log,) = origin.logs()
        ranges = [Range(topic, number, 0, high) for number, (_, high) in log.bounds.items()]
        origin.rows(spark, ranges).write.format("noop").mode("overwrite").save()

    sides: dict[str, Callable[[], None]] = {"archive": archived, "source": source, "decoding": decoded}
    try:
        for side in sides.values():  # compiled, and the broker's pages are in memory
            side()
        return {name: _timed(side, count) for name, side in sides.items()}
    finally:
        shutil.rmtree(place, ignore_errors=True)


def main(bootstrap: str, topic: str, count: str) -> None:
    """Prints what was measured."""
    spark = open_session("bench", master="local[2]", jars=sorted(folder("spark-kafka").glob("*.jar")))
    found = measure(spark, bootstrap, topic, int(count))
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
