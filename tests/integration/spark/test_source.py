"""`format("scopegate")` on the real gateway and a real Kafka: what Kafka's own source sees, column by column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from confluent_kafka import TopicPartition

from bridges.spark.archive.archiving.amqp_origin import AmqpOrigin
from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.contents.messages import with_messages
from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.store import Archive
from bridges.spark.archive.verification import verify
from bridges.spark.columns import schema
from bridges.spark.datasource.options import read_options
from bridges.spark.datasource.source import BatchReader, ScopeGateDataSource, StreamReader
from bridges.spark.errors import PipelineError
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import consumed, event_tuples, expected, gateway_urls, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def urls(kafka_broker: KafkaBroker) -> Iterator[tuple[str, str]]:
    with gateway_urls(kafka_broker) as urls:
        yield urls


@pytest.fixture
def url(urls: tuple[str, str]) -> str:
    return urls[0]


def loaded(spark: SparkSession, url: str, topic: str, **options: object) -> DataFrame:
    spark.dataSource.register(ScopeGateDataSource)
    texts = {name: str(value) for name, value in options.items()}
    return spark.read.format("scopegate").options(url=url, address=f"events/{topic}", **texts).load()


def table(frame: DataFrame) -> Any:
    return frame.select(*schema.COLUMNS).orderBy("partition", "offset").toArrow()


def test_a_batch_is_what_the_archive_reads_from_kafka(spark: SparkSession, kafka_broker: KafkaBroker, url: str) -> None:
    topic = kafka_broker.create_topic(partitions=3)
    produce(kafka_broker, topic, 60, 3)
    origin = KafkaOrigin({"bootstrap.servers": kafka_broker.bootstrap}, {topic: "x"})
    ranges = [Range("x", partition, 0, 20) for partition in range(3)]
    over_amqp = loaded(spark, url, topic, maxTasks=2)
    from_kafka = pa.Table.from_batches([with_messages(batch.rows) for batch in origin.source().batches(ranges)])
    assert table(over_amqp).equals(table(spark.createDataFrame(from_kafka)))
    assert event_tuples(over_amqp.collect()) == expected(kafka_broker, topic)
    some = loaded(spark, url, topic, startingOffsets='{"0": 5, "2": 19}', endingOffsets='{"0": 8, "1": 0}')
    places = [(row.partition, row.offset) for row in some.orderBy("partition", "offset").collect()]
    assert places == [(0, 5), (0, 6), (0, 7), (2, 19)]
    red = loaded(spark, url, topic, filter="a.color = 'red'").collect()
    wanted = [each for each in consumed(kafka_broker, topic) if ("color", b"red") in each.headers]
    assert sorted((row.partition, row.offset) for row in red) == [record[:2] for record in wanted]


def test_workers_are_forked_with_what_tasks_need(spark: SparkSession) -> None:
    def loaded(_: object) -> bool:
        import sys

        return {"bridges.spark.archive.write.task", "bridges.spark.datasource.source", "pandas"} <= sys.modules.keys()

    assert spark.sparkContext.parallelize([0], 1).map(loaded).collect() == [True]


def test_a_batch_begins_and_ends_at_times(spark: SparkSession, kafka_broker: KafkaBroker, url: str) -> None:
    topic = kafka_broker.create_topic(partitions=3)
    produce(kafka_broker, topic, 40, 2)  # times 10,000 to 10,039; the third partition stays empty
    read = loaded(spark, url, topic, startingTimestamp=10_010, endingTimestamp="1970-01-01T00:00:10.031Z")
    times = sorted(round(row.timestamp.timestamp() * 1000) for row in read.collect())
    assert times == list(range(10_010, 10_031))
    assert loaded(spark, url, topic, startingTimestamp=10_040).count() == 0


class Stream:
    """What Spark does with a stream reader, without Spark: a checkpoint, and the events read so far."""

    def __init__(self) -> None:
        self.checkpoint: dict[str, Any] | None = None
        self.places: list[tuple[int, int]] = []

    def run(self, url: str, topic: str, **options: str) -> int:
        """Read to the end of what there is, as a new query would; the number of micro-batches."""
        reader = StreamReader(read_options({"url": url, "address": f"events/{topic}", **options}))
        at = self.checkpoint or reader.initialOffset()
        reader.prepareForTriggerAvailableNow()
        batches = 0
        while (end := reader.latestOffset(at, reader.getDefaultReadLimit())) != at:
            for span in reader.partitions(at, end):
                for batch in reader.read(span):
                    columns_of = batch.column("partition").to_pylist(), batch.column("offset").to_pylist()
                    self.places += zip(*columns_of, strict=True)
            self.checkpoint = at = end
            batches += 1
        return batches


def test_a_stream_goes_on_from_its_offsets_and_notices_what_changed(kafka_broker: KafkaBroker, url: str) -> None:
    topic = kafka_broker.create_topic(partitions=1)
    produce(kafka_broker, topic, 30, 1)
    stream = Stream()
    assert stream.run(url, topic, maxEventsPerTrigger="20") == 2
    kafka_broker.grow(topic, 2)
    produce(kafka_broker, topic, 20, 2, first=100)
    wait_until(lambda: stream.run(url, topic) >= 0 and (1, 9) in stream.places, "the new partition", 3 * PATIENCE)
    assert sorted(stream.places) == [each[:2] for each in consumed(kafka_broker, topic)]

    produce(kafka_broker, topic, 20, 2, first=200)
    place, admin = TopicPartition(topic, 0, 45), kafka_broker.admin()
    admin.delete_records([place])[place].result(PATIENCE)
    gone = "partition 0: offsets 40 to 44 were deleted from the log; failOnDataLoss=false"
    with pytest.raises(PipelineError, match=gone):
        stream.run(url, topic)
    stream.run(url, topic, failOnDataLoss="false")
    assert len(stream.places) == len(set(stream.places)) == 65
    stream.checkpoint = {"0": 99, "1": 20}
    with pytest.raises(PipelineError, match="the log ends at offset 50, not 99: it was truncated or recreated"):
        stream.run(url, topic)


def test_an_archive_over_amqp_has_every_event_once(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic(partitions=3)
    produce(kafka_broker, topic, 40, 2)  # the third partition stays empty
    archive = Archive(tmp_path)
    origin = AmqpOrigin({"url": url, "address": f"events/{topic}"}, "orders")
    with archive.writing():
        assert commit_next(spark, archive, origin, LogBounds(offsets=30)) is not None
        produce(kafka_broker, topic, 30, 3, first=100)
        while commit_next(spark, archive, origin, LogBounds(offsets=30)):
            pass
    assert verify(archive).problems == ()
    stored = read_archive(spark, archive, ArchiveSelection(("orders",)))
    assert table(stored).equals(table(loaded(spark, url, topic)))
    assert stored.count() == 70


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"adress": "x"}, "format scopegate: unknown option adress, did you mean address? (there is: url, address, "),
        ({"zzz": "x"}, "format scopegate: unknown option zzz (there is: url, address, "),
        ({"startingTimestamp": "soon"}, "format scopegate: option startingTimestamp has to be milliseconds since 1970"),
        (
            {"startingTimestamp": "5", "startingOffsets": "latest"},
            "format scopegate: startingOffsets and startingTimestamp are mutually exclusive",
        ),
        ({"startingOffsets": '{"0": 99}'}, "startingOffsets: partition 0 of events/{topic} ends at offset 5, not 99"),
        ({"maxTasks": "0"}, "format scopegate: option maxTasks has to be a number from 1 on, not '0'"),
        ({"ca": "/nowhere"}, "ca /nowhere is not a file on the machine of the task"),
        ({"filter": "a ="}, "format scopegate: option filter: "),
        ({"startingOffsets": "soon"}, "format scopegate: option startingOffsets has to be earliest, latest or JSON"),
        ({"startingOffsets": '{"7": 0}'}, "startingOffsets: events/{topic} has no partition 7 (it has 1)"),
        ({"endingOffsets": '{"0": 99}'}, "endingOffsets: partition 0 of events/{topic} ends at offset 5, not 99"),
        (
            {"startingOffsets": '{"0": 4}', "endingOffsets": '{"0": 3}'},
            "format scopegate: startingOffsets and endingOffsets: partition 0 ends at offset 3, before its start at 4",
        ),
        (
            {"startingTimestamp": "7", "endingTimestamp": "6"},
            "format scopegate: endingTimestamp is before startingTimestamp",
        ),
        ({"address": "direct"}, "direct at {url}: "),
        ({"address": "events/none"}, "events/none at {url}: there is no event log"),
        ({"url": "amqp://127.0.0.1:1"}, "events/{topic} at amqp://127.0.0.1:1: amqp://127.0.0.1:1 is not reached: "),
        ({"passwordEnv": "SCOPEGATE_NOT_SET", "user": "u"}, "passwordEnv: SCOPEGATE_NOT_SET is not set"),
    ],
)
def test_mistakes_are_one_sentence(kafka_broker: KafkaBroker, url: str, options: dict[str, str], said: str) -> None:
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, 5, 1)
    given = {"url": url, "address": f"events/{topic}", **options}
    with pytest.raises(PipelineError) as raised:
        BatchReader(read_options(given)).partitions()
    assert str(raised.value).startswith(said.replace("{topic}", topic).replace("{url}", url))


def test_a_wrong_password_is_one_sentence(
    kafka_broker: KafkaBroker, urls: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, named = kafka_broker.create_topic(), urls[1]
    given = {"url": named, "address": f"events/{topic}", "user": "bob", "passwordEnv": "SCOPEGATE_TEST_PASSWORD"}
    monkeypatch.setenv("SCOPEGATE_TEST_PASSWORD", "guessed")
    refused = f"^events/{topic} at {named}: .*refuses the login of bob: wrong user or password$"
    with pytest.raises(PipelineError, match=refused) as raised:
        BatchReader(read_options(given)).partitions()
    assert "guessed" not in str(raised.value)
    monkeypatch.setenv("SCOPEGATE_TEST_PASSWORD", "builder")
    assert len(BatchReader(read_options(given)).partitions()) == 1


def test_a_stream_has_no_end(url: str) -> None:
    with pytest.raises(PipelineError, match="endingOffsets and endingTimestamp are for batches"):
        StreamReader(read_options({"url": url, "address": "x", "endingTimestamp": "5"}))
