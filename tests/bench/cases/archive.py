"""Archiving a topic against what copies it raw: `python -m tests.bench.cases.archive BOOTSTRAP TOPIC COUNT MANY EACH`.

Prints JSON: rows a second and processor time of a row for each side, after a round that compiles. The sides are
`archive`; Spark's Kafka source to nothing (`source`) and to Parquet with its raw columns (`raw`); one process with
confluent-kafka and pyarrow, raw columns, too (`plain`). `partitions` is the archive of a topic of many partitions.
"""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.store import Archive
from bridges.spark.session import open_session
from tests.bench.cases.source import below
from tests.bench.effort import Effort
from tests.bench.figures import Figure
from tests.bench.running import Watch, cpu_seconds, module
from tests.support.gateway.process import fresh_folder
from tests.support.project.parts import folder
from tests.support.servers.kafka import FastKafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Side = Callable[[], None]
Measured = dict[str, float]
PARTITIONS = 4
MANY, EACH = 100, 389
_BATCH = 5000


def archive(effort: Effort) -> Iterator[Figure]:
    """Rows a second into Parquet, all columns and the record, on both cores; and the seconds of many partitions."""
    broker = FastKafka()
    try:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
        topics = [NewTopic("archive", PARTITIONS, 1), NewTopic("many", MANY, 1)]
        for created in admin.create_topics(topics).values():
            created.result(30)
        count, many = str(effort.archived), str(min(effort.archived, MANY * EACH))
        module("kafka.fill", broker.bootstrap, "archive", count, "100", "1000", "plain", seconds=400.0)
        spread(broker.bootstrap, "many", int(many))
        call = module("cases.archive", broker.bootstrap, "archive", count, "many", many, seconds=1200.0)
        found: dict[str, Any] = json.loads(call.splitlines()[-1])
        what = "Spark's Kafka source, raw columns, to Parquet"
        yield Figure("archive", found["archive"]["rate"], "rows/s", found["raw"]["rate"], what, 0.8, details=found)
        seconds, details = int(many) / found["partitions"]["rate"], found["partitions"]
        yield Figure("archive_partitions", seconds, "s", target=4.0, at_most=True, details=details)
    finally:
        broker.stop()


def spread(bootstrap: str, topic: str, count: int) -> None:
    """Write small records round robin."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for number in range(count):
        producer.produce(topic, b"v%d" % number, b"k", partition=number % MANY, headers=[("color", b"red")])
    assert producer.flush(120) == 0


class Meter:
    """Measures sides in this process and in those that it has started."""

    def __init__(self, spark: SparkSession) -> None:
        self._java = int(spark.sparkContext._gateway.proc.pid)  # type: ignore[attr-defined]

    def measure(self, side: Side, rows: int, rounds: int) -> Measured:
        """Medians, after a round that compiles and reads the broker's pages into memory."""
        side()
        found = [self._once(side, rows) for _ in range(rounds)]
        return {name: median(each[name] for each in found) for name in found[0]}

    def _once(self, side: Side, rows: int) -> Measured:
        watch, started, before = Watch(), time.perf_counter(), self._used()
        side()
        seconds, used = time.perf_counter() - started, self._used() - before
        others = max(0.0, watch.others_cores() - used / seconds)
        return {"rate": rows / seconds, "cpu_us": used / rows * 1e6, "others_cores": others}

    def _used(self) -> float:
        java = cpu_seconds(self._java) + sum(cpu_seconds(pid) for pid in below(self._java))
        return java + time.process_time()


def archiving(spark: SparkSession, bootstrap: str, topic: str, count: int, place: Path) -> Side:
    """One commit of the whole topic."""
    origin = KafkaOrigin({"bootstrap.servers": bootstrap}, {topic: topic})

    def archived() -> None:
        target = Archive(place / topic)
        with target.writing():
            commit = commit_next(spark, target, origin, LogBounds(offsets=count))
        assert commit is not None
        assert sum(each.rows for each in commit.ranges) == count
        shutil.rmtree(target.path)

    return archived


def spark_source(spark: SparkSession, bootstrap: str, topic: str) -> Any:
    """The topic as rows of Spark's own Kafka source."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap).option("subscribe", topic)
    reader = reader.option("includeHeaders", "true").option("minPartitions", "2")
    return reader.option("kafka.max.poll.records", "5000").load()


def plain_copy(bootstrap: str, topic: str, place: Path) -> None:
    """Copy a topic to Parquet in one process: a list of tuples a column, raw columns."""
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "plain", "enable.partition.eof": True}
    consumer = Consumer({**settings, "isolation.level": "read_committed"})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    schema = pa.schema(
        [
            *(("partition", pa.int32()), ("offset", pa.int64()), ("timestamp", pa.int64()), ("key", pa.binary())),
            *(("value", pa.binary()), ("headers", pa.list_(header))),
        ]
    )
    ended = 0
    with pq.ParquetWriter(place, schema, compression="zstd") as writer:
        while ended < PARTITIONS:
            messages = consumer.consume(_BATCH, 1.0)
            records = [each for each in messages if each.error() is None]
            ended += sum(_is_end(each) for each in messages)
            rows = [
                (
                    *(each.partition(), each.offset(), each.timestamp()[1], each.key(), each.value()),
                    [{"key": name, "value": content} for name, content in each.headers() or ()],
                )
                for each in records
            ]
            if rows:
                columns = zip(zip(*rows, strict=True), schema, strict=True)
                arrays = [pa.array(column, field.type) for column, field in columns]
                writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    consumer.close()


def _is_end(message: Any) -> bool:
    error = message.error()
    return error is not None and error.code() == KafkaError._PARTITION_EOF


def measure(bootstrap: str, topic: str, count: int, many: str, of_many: int, rounds: int = 3) -> dict[str, Measured]:
    """All sides."""
    spark = open_session("bench", master="local[2]", jars=sorted(folder("spark-kafka").glob("*.jar")))
    place, meter = fresh_folder("bench-archive"), Meter(spark)

    def raw() -> None:
        target = str(place / "raw")
        spark_source(spark, bootstrap, topic).write.mode("overwrite").option("compression", "zstd").parquet(target)

    sides: dict[str, tuple[Side, int]] = {
        "archive": (archiving(spark, bootstrap, topic, count, place), count),
        "raw": (raw, count),
        "plain": (lambda: plain_copy(bootstrap, topic, place / "plain.parquet"), count),
        "source": (
            lambda: spark_source(spark, bootstrap, topic).write.format("noop").mode("overwrite").save(),
            count,
        ),
        "partitions": (archiving(spark, bootstrap, many, of_many, place), of_many),
    }
    try:
        return {name: meter.measure(side, rows, rounds) for name, (side, rows) in sides.items()}
    finally:
        spark.stop()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], int(sys.argv[5]))))
