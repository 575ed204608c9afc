"""Topics that used to be too much: large records, many partitions, times that producers invent (issue 18, 3)."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.store import Archive
from bridges.spark.archive.verification import verify
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import archived, consumed, files

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MEGABYTE = 1_000_000
DAY = 86_400_000


def archive_all(spark: SparkSession, broker: KafkaBroker, topic: str, path: Path, bounds: LogBounds) -> Archive:
    archive, origin = Archive(path), KafkaOrigin({"bootstrap.servers": broker.bootstrap}, {topic: topic})
    with archive.writing():
        while commit_next(spark, archive, origin, bounds):
            pass
    return archive


@pytest.mark.parametrize(
    ("size", "count"),
    [
        pytest.param(10 * MEGABYTE, 4, id="10MB"),
        pytest.param(MEGABYTE, 24, id="1MB"),
        pytest.param(10 * MEGABYTE, 40, id="many-10MB", marks=pytest.mark.soak),
        pytest.param(MEGABYTE, 3000, id="many-1MB", marks=pytest.mark.soak),
    ],
)
def test_large_records_need_no_settings(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path, size: int, count: int
) -> None:
    """With the defaults of a commit, and 1 GB of memory for Spark's Java, as this session has."""
    topic = kafka_broker.create_topic(partitions=2, config={"max.message.bytes": str(11 * MEGABYTE)})
    wanted = []
    with kafka_broker.writing(**{"message.max.bytes": 11 * MEGABYTE}) as write:
        for number in range(count):
            value = os.urandom(size)
            wanted.append(sha256(value).hexdigest())
            write(topic, value, partition=number % 2, timestamp=number)
    archive = archive_all(spark, kafka_broker, topic, tmp_path, LogBounds())
    verdict = verify(archive)
    assert (verdict.rows, verdict.problems) == (count, ())
    found = read_archive(spark, archive).selectExpr("sha2(body, 256) AS digest").collect()
    assert sorted(row.digest for row in found) == sorted(wanted)


def test_a_hundred_partitions_make_a_file_a_task(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic(partitions=100)
    with kafka_broker.writing() as write:
        for number in range(2000):
            write(topic, b"%d" % number, b"k", number % 100, timestamp=number + 1)  # 0 would be now
    archive = archive_all(spark, kafka_broker, topic, tmp_path, LogBounds())
    assert len(files(tmp_path)) == spark.sparkContext.defaultParallelism
    assert (verify(archive).rows, verify(archive).problems) == (2000, ())
    assert archived(read_archive(spark, archive).collect()) == consumed(kafka_broker, topic)


def test_times_that_producers_invent_make_few_files(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    topic, invented = kafka_broker.create_topic(), random.Random(18)
    with kafka_broker.writing() as write:
        for number in range(1000):
            write(topic, b"%d" % number, timestamp=number if number % 2 else invented.randrange(20_000) * DAY)
    archive = archive_all(spark, kafka_broker, topic, tmp_path, LogBounds())
    assert len(files(tmp_path)) < 20  # of 500 dates; a batch of few rows may have few
    assert verify(archive).problems == ()
    rows = read_archive(spark, archive)
    assert rows.where("date = '1970-01-01'").count() >= 500
    assert rows.where("date IS NULL").count() > 400
    assert archived(rows.collect()) == consumed(kafka_broker, topic)
    # a time finds its events wherever they are
    some = next(each.timestamp[1] for each in consumed(kafka_broker, topic) if each.timestamp[1] > 1000)
    since, until = (_time(some), _time(some + 1))
    assert read_archive(spark, archive, ArchiveSelection((topic,), since, until)).count() >= 1


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1000, UTC)
