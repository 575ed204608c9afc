"""Rows are counted by the tasks that write them and held against the files and the log: none is lost unseen (F1)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest
from confluent_kafka import Producer

from bridges.spark.archive.amqp_origin import AmqpOrigin
from bridges.spark.archive.job import LogBounds, commit_next
from bridges.spark.archive.kafka_origin import KafkaOrigin
from bridges.spark.archive.ranges import Log, Range
from bridges.spark.archive.read import read_archive
from bridges.spark.archive.store import STAGING, Archive
from bridges.spark.archive.verification import verify
from bridges.spark.errors import PipelineError
from tests.support.gateway.process import PATIENCE
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import files, gateway_urls, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bridges.spark.archive.job import ArchiveOrigin

class Make(Protocol):
    """An origin of a topic, under the address `orders`."""

    def __call__(self, topic: str) -> ArchiveOrigin: ...


@pytest.fixture(scope="module")
def url(kafka_broker: KafkaBroker) -> Iterator[str]:
    with gateway_urls(kafka_broker) as (url, _):
        yield url


@pytest.fixture(params=["kafka", "amqp"])
def make(request: pytest.FixtureRequest, kafka_broker: KafkaBroker, url: str) -> Make:
    if request.param == "amqp":
        return lambda topic: AmqpOrigin({"url": url, "address": f"events/{topic}"}, "orders")
    return lambda topic: KafkaOrigin({"bootstrap.servers": kafka_broker.bootstrap}, {topic: "orders"})


class Wrapped:
    """An origin that something goes wrong with."""

    def __init__(self, origin: ArchiveOrigin) -> None:
        self.origin = origin

    def logs(self) -> Iterable[Log]:
        return self.origin.logs()

    def rows(self, spark: SparkSession, ranges: Sequence[Range], watch: Any = None) -> DataFrame:
        return self.origin.rows(spark, ranges, watch)

    def holding(self, gaps: Sequence[Range]) -> Iterable[Range]:
        return self.origin.holding(gaps)


class Dropping(Wrapped):
    """Rows are gone between the tasks that count and the files that are found."""

    def rows(self, spark: SparkSession, ranges: Sequence[Range], watch: Any = None) -> DataFrame:
        return super().rows(spark, ranges, watch).where("offset < 90")


class Apart(Wrapped):
    """The folder is another one for the tasks: the token is not there."""

    def __init__(self, origin: ArchiveOrigin, archive: Archive) -> None:
        super().__init__(origin)
        self._archive = archive

    def rows(self, spark: SparkSession, ranges: Sequence[Range], watch: Any = None) -> DataFrame:
        for token in (self._archive.path / STAGING).glob("*.token"):
            token.write_text("of another folder")
        return super().rows(spark, ranges, watch)


class Skipping(Wrapped):
    """Spark reads less than it was told to, and counts what it reads."""

    def __init__(self, origin: ArchiveOrigin, start: int, end: int) -> None:
        super().__init__(origin)
        self._start, self._end = start, end

    def rows(self, spark: SparkSession, ranges: Sequence[Range], watch: Any = None) -> DataFrame:
        less = [replace(each, start=each.start + self._start, end=each.end - self._end) for each in ranges]
        return super().rows(spark, less, watch)


def archive_more(spark: SparkSession, archive: Archive, origin: ArchiveOrigin) -> None:
    with archive.writing():
        while commit_next(spark, archive, origin, LogBounds()):
            pass


def refused(spark: SparkSession, archive: Archive, origin: ArchiveOrigin) -> str:
    """What is said; the archive has to be as it was, and right after the next run."""
    before = files(archive.path)
    with pytest.raises(PipelineError) as caught:
        archive_more(spark, archive, origin)
    assert files(archive.path) == before
    assert not (archive.path / STAGING).exists()
    assert verify(archive).problems == ()
    return str(caught.value)


def test_what_is_lost_on_the_way_to_the_files_fails_the_commit(
    spark: SparkSession, kafka_broker: KafkaBroker, make: Make, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic(partitions=2)
    archive, origin = Archive(tmp_path / "archive"), make(topic)
    produce(kafka_broker, topic, 100, 2)
    archive_more(spark, archive, origin)
    produce(kafka_broker, topic, 200, 2, first=100)
    numbers = "the tasks wrote 100 events (offsets 50 to 149), the files have 40 events (offsets 50 to 89)"
    assert refused(spark, archive, Dropping(origin)) == (
        f"{archive.path} lacks some of what was written, nothing is committed: "
        f"orders, partition 0: {numbers}; orders, partition 1: {numbers}"
    )
    said = refused(spark, archive, Apart(origin, archive))
    assert said.startswith("a worker of Spark cannot reach the archive: for the one at ")
    assert str(archive.path) in said
    archive_more(spark, archive, origin)
    assert (verify(archive).rows, verify(archive).problems) == (300, ())
    assert read_archive(spark, archive).count() == 300


@pytest.mark.parametrize(("start", "end", "first"), [(10, 0, 0), (0, 10, 40), (10, 10, 0)])
def test_offsets_without_a_row_are_asked_for_again(
    spark: SparkSession, kafka_broker: KafkaBroker, make: Make, tmp_path: Path, start: int, end: int, first: int
) -> None:
    topic, archive = kafka_broker.create_topic(), Archive(tmp_path / "archive")
    produce(kafka_broker, topic, 50, 1)
    said = refused(spark, archive, Skipping(make(topic), start, end))
    assert said.startswith(
        f"Spark skipped events that the log has, nothing is committed: orders, partition 0: offset {first}"
    )
    archive_more(spark, archive, make(topic))
    assert verify(archive).rows == 50


def test_offsets_that_are_no_events_are_no_loss(
    spark: SparkSession, kafka_broker: KafkaBroker, make: Make, tmp_path: Path
) -> None:
    """Ends of transactions and what they took back, at the end of the log, too."""
    topic, archive = kafka_broker.create_topic(), Archive(tmp_path / "archive")
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for number in range(12):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, b"%d" % number)
        assert producer.flush(PATIENCE) == 0  # an abort would take back what is not sent yet
        (producer.abort_transaction if number % 3 == 2 else producer.commit_transaction)(30)
    archive_more(spark, archive, make(topic))
    assert (verify(archive).rows, verify(archive).problems) == (40, ())
    (held,) = verify(archive).ranges
    assert (held.start, held.end) == (0, 72)
