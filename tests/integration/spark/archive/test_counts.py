"""Rows are counted by the tasks that write them and held against the files and the log: none is lost unseen (F1)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bridges.spark.archive.archiving import job
from bridges.spark.archive.archiving.amqp_origin import AmqpOrigin
from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.contents.ranges import Log, Range
from bridges.spark.archive.contents.token import Token
from bridges.spark.archive.read import read_archive
from bridges.spark.archive.store import STAGING, Archive
from bridges.spark.archive.verification import verify
from bridges.spark.archive.write.check import file_differences
from bridges.spark.archive.write.task import ArchiveBatch, RangeSource, TaskReport
from bridges.spark.errors import PipelineError
from tests.support.gateway.process import PATIENCE
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.spark.pipeline import files, gateway_urls, produce, settled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bridges.spark.archive.write.origin import ArchiveOrigin

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


class Skipping(NamedTuple):
    """An origin whose tasks read less than they were told to, and count what they read."""

    origin: ArchiveOrigin
    start: int
    end: int

    def logs(self) -> Iterable[Log]:
        return self.origin.logs()

    def identities(self, addresses: Collection[str]) -> Mapping[str, str | None]:
        return self.origin.identities(addresses)

    def source(self) -> SkippingSource:
        return SkippingSource(self.origin.source(), self.start, self.end)

    def holding(self, gaps: Sequence[Range]) -> Iterable[Range]:
        return self.origin.holding(gaps)


class SkippingSource(NamedTuple):
    """Leaves out some events at both ends of each range."""

    source: RangeSource
    start: int
    end: int

    def batches(self, ranges: Sequence[Range]) -> Iterable[ArchiveBatch]:
        return self.source.batches(
            [replace(each, start=each.start + self.start, end=each.end - self.end) for each in ranges]
        )


class Meeting(NamedTuple):
    """An origin that has the events of two topics at one address, as the command line accepted once."""

    origins: tuple[ArchiveOrigin, ArchiveOrigin]

    def logs(self) -> Iterable[Log]:
        return [log for each in self.origins for log in each.logs()]

    def identities(self, addresses: Collection[str]) -> Mapping[str, str | None]:
        return self.origins[1].identities(addresses)

    def source(self) -> RangeSource:
        return self.origins[1].source()

    def holding(self, gaps: Sequence[Range]) -> Iterable[Range]:
        return self.origins[1].holding(gaps)


def dropping(reports: Sequence[TaskReport], staging: Path) -> list[str]:
    """What the driver sees if rows are gone between the tasks that count and the files that are found."""
    for path in staging.glob("*.parquet"):
        rows = pq.read_table(path)
        pq.write_table(rows.filter(pc.less(rows["offset"], 90)), path)
    return file_differences(reports, staging)


class Elsewhere(NamedTuple):
    """A token that is another one for the tasks: their folder is not that of the driver."""

    @staticmethod
    def left(path: Path) -> Token:
        return Token.left(path)._replace(text="of another folder")


def archive_more(spark: SparkSession, archive: Archive, origin: ArchiveOrigin) -> None:
    with archive.writing():
        while commit_next(spark, archive, origin, LogBounds()):
            pass


def refused(spark: SparkSession, archive: Archive, origin: ArchiveOrigin) -> str:
    """The message; the archive has to be as it was, and right after the next run."""
    before = files(archive.path)
    with pytest.raises(PipelineError) as caught:
        archive_more(spark, archive, origin)
    assert files(archive.path) == before
    assert not (archive.path / STAGING).exists()
    assert verify(archive).problems == ()
    return str(caught.value)


def test_what_is_lost_on_the_way_to_the_files_fails_the_commit(
    spark: SparkSession, kafka_broker: KafkaBroker, make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = kafka_broker.create_topic(partitions=2)
    archive, origin = Archive(tmp_path / "archive"), make(topic)
    produce(kafka_broker, topic, 100, 2)
    archive_more(spark, archive, origin)
    produce(kafka_broker, topic, 200, 2, first=100)
    with monkeypatch.context() as patched:
        patched.setattr(job, "file_differences", dropping)
        said = refused(spark, archive, origin)
    assert said.startswith(f"{archive.path} lacks some of what was written, nothing is committed: orders, a file of ")
    assert re.search(r" has \d+ events and \d+ bytes", said)
    with monkeypatch.context() as patched:
        patched.setattr(job, "Token", Elsewhere)
        said = refused(spark, archive, origin)
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
        f"the tasks skipped events that the log has, nothing is committed: orders, partition 0: offset {first}"
    )
    archive_more(spark, archive, make(topic))
    assert verify(archive).rows == 50


def test_offsets_that_are_no_events_are_no_loss(
    spark: SparkSession, kafka_broker: KafkaBroker, make: Make, tmp_path: Path
) -> None:
    """Ends of transactions and what they took back, at the end of the log, too."""
    topic, archive = kafka_broker.create_topic(), Archive(tmp_path / "archive")
    producer = new_producer(kafka_broker.bootstrap, **{"transactional.id": topic})
    producer.init_transactions(30)
    for number in range(12):
        producer.begin_transaction()
        for _ in range(5):
            producer.produce(topic, b"%d" % number)
        assert producer.flush(PATIENCE) == 0  # an abort would take back what is not sent yet
        (producer.abort_transaction if number % 3 == 2 else producer.commit_transaction)(30)
    settled(kafka_broker, topic)
    archive_more(spark, archive, make(topic))
    assert (verify(archive).rows, verify(archive).problems) == (40, ())
    (held,) = verify(archive).ranges
    assert (held.start, held.end) == (0, 72)


@pytest.mark.parametrize("first", [50, 20])
def test_two_topics_at_one_address_are_not_counted_as_one(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path, first: int
) -> None:
    """Rows were counted by address and partition: those of one topic stood for those of the other."""
    origins = []
    for count in (first, 50):
        topic = kafka_broker.create_topic()
        produce(kafka_broker, topic, count, 1)
        origins.append(KafkaOrigin({"bootstrap.servers": kafka_broker.bootstrap}, {topic: "orders"}))
    said = refused(spark, Archive(tmp_path / "archive"), Meeting((origins[0], origins[1])))
    assert "orders, partition 0: " in said
    assert "nothing is committed" in said


def test_an_origin_of_two_topics_at_one_address_is_refused() -> None:
    with pytest.raises(PipelineError, match=r"the topics a and b have one address, x: give each its own"):
        KafkaOrigin({"bootstrap.servers": "127.0.0.1:1"}, {"a": "x", "c": "y", "b": "x"})
