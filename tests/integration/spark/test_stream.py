"""Streaming queries on the real gateway and a real Kafka: what a Kafka consumer sees, once, whatever happens."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaException, TopicPartition

from bridges.spark.datasource.progress import offsets_behind
from bridges.spark.datasource.source import ScopeGateDataSource
from bridges.spark.errors import sentence
from tests.support.gateway.process import PATIENCE, UNMEASURED, Process, hold, wait_until
from tests.support.project.parts import ROOT
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import (
    KILLS,
    consumed,
    event_tuples,
    expected,
    gateway_urls,
    java_of,
    kill_all,
    micro_batches,
    produce,
)
from tests.support.spark.queries import run_to_end, started

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

@pytest.fixture(scope="module")
def url(kafka_broker: KafkaBroker) -> Iterator[str]:
    with gateway_urls(kafka_broker) as (url, _):
        yield url


class Query:
    """A query into Parquet, run to the end of what there is as often as one likes; its checkpoint goes on."""

    def __init__(self, spark: SparkSession, url: str, topic: str, folder: Path) -> None:
        self._spark, self._url, self._topic, self._folder = spark, url, topic, folder
        self.behind: list[dict[int, int]] = []
        """What the micro-batches of the last run left, by partition."""

    def frame(self, **options: object) -> Any:
        self._spark.dataSource.register(ScopeGateDataSource)
        texts = {name: str(value) for name, value in options.items()}
        return (
            self._spark.readStream.format("scopegate")
            .options(url=self._url, address=f"events/{self._topic}", **texts)
            .load()
        )

    def run(self, **options: object) -> int:
        """The number of micro-batches that are done now."""
        sink = self.frame(**options).writeStream.format("parquet").option("path", str(self._folder / "out"))
        query = run_to_end(sink.option("checkpointLocation", str(self._folder / "check")).trigger(availableNow=True))
        self.behind = [offsets_behind(each.sources[0]) for each in query.recentProgress if each.numInputRows]
        return micro_batches(self._folder / "check" / "commits")

    def fails(self, **options: object) -> str:
        """The sentence that a run ends with."""
        with pytest.raises(Exception, match="PipelineError") as raised:
            self.run(**options)
        return sentence(raised.value)

    def seen(self) -> Any:
        return event_tuples(self._spark.read.parquet(str(self._folder / "out")).collect())

    def offsets(self) -> dict[str, Any]:
        """What the checkpoint says of the last micro-batch."""
        files = [each for each in (self._folder / "check" / "offsets").iterdir() if each.name.isdigit()]
        last = max(files, key=lambda each: int(each.name))
        found: dict[str, Any] = json.loads(last.read_text().splitlines()[-1])
        return found


def test_a_query_sees_what_a_consumer_sees_in_micro_batches_and_goes_on(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic(partitions=2)
    produce(kafka_broker, topic, 60, 2)
    query = Query(spark, url, topic, tmp_path)
    assert query.run(maxEventsPerTrigger=25) == 3
    assert query.seen() == expected(kafka_broker, topic)
    assert [sum(each.values()) for each in query.behind] == [35, 10, 0]
    assert query.run() == 3  # nothing new: no micro-batch

    kafka_broker.grow(topic, 3)
    produce(kafka_broker, topic, 30, 3, first=100)
    wait_until(lambda: query.run(maxTasks=2) and query.offsets().get("2") == 10, "the new partition", 4 * PATIENCE)
    assert query.seen() == expected(kafka_broker, topic)


@pytest.mark.soak  # test_pipeline_source.py shows it without Spark's queries
def test_a_log_that_was_cut_off_or_made_anew_is_noticed(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, 20, 1)
    query = Query(spark, url, topic, tmp_path)
    query.run()
    admin = kafka_broker.admin()
    produce(kafka_broker, topic, 20, 1, first=100)
    admin.delete_records([TopicPartition(topic, 0, 25)])[TopicPartition(topic, 0, 25)].result(30)
    gone = f"events/{topic}, partition 0: offsets 20 to 24 were deleted from the log; failOnDataLoss=false skips them"
    assert query.fails() == gone
    query.run(failOnDataLoss="false")
    places = [each[1] for each in query.seen()]
    assert places == [*range(20), *range(25, 40)]

    # truncated to nothing: the log is empty, and still says where it goes on
    admin.delete_records([TopicPartition(topic, 0, 40)])[TopicPartition(topic, 0, 40)].result(30)
    done = query.run()
    produce(kafka_broker, topic, 5, 1, first=200)
    assert query.run() == done + 1
    assert [each[1] for each in query.seen()] == [*places, *range(40, 45)]

    admin.delete_topics([topic])[topic].result(30)
    wait_until(lambda: not kept(kafka_broker, topic), "the topic to be gone", 30)
    kafka_broker.create_topic(topic)
    produce(kafka_broker, topic, 50, 1, first=300)  # longer than the old one: its length tells nothing
    old = query.offsets()["log"]
    assert query.fails().startswith(f"events/{topic}: the log was recreated (its id was {old} and is ")
    query.run(failOnDataLoss="false")
    new = [each for each in query.seen() if each in expected(kafka_broker, topic)]
    assert [each[1] for each in new] == list(range(50))


def kept(broker: KafkaBroker, topic: str) -> bool:
    try:
        return broker.metadata().topics.get(topic) is not None
    except KafkaException:
        return True


@pytest.mark.parametrize("starting", ["latest", "earliest"])
def test_where_a_query_starts_is_resolved_once(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, tmp_path: Path, starting: str
) -> None:
    """A first micro-batch that failed is read again as it was planned, though the log has moved on meanwhile."""
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, 10, 1)
    query = Query(spark, url, topic, tmp_path)

    def refuse(batch: Any, number: int) -> None:
        raise RuntimeError("not this time")

    frame = query.frame(startingOffsets=starting)
    writing = frame.writeStream.option("checkpointLocation", str(tmp_path / "check")).foreachBatch(refuse)
    failing = started(writing.trigger(processingTime="0.2 seconds"))
    produce(kafka_broker, topic, 5, 1, first=100)
    with pytest.raises(Exception, match="not this time"):
        failing.awaitTermination(60)
    produce(kafka_broker, topic, 5, 1, first=200)
    if starting == "earliest":  # what was planned is gone meanwhile: not silently left out
        admin = kafka_broker.admin()
        admin.delete_records([TopicPartition(topic, 0, 12)])[TopicPartition(topic, 0, 12)].result(30)
        assert "partition 0: offsets 0 to 9 were deleted from the log" in query.fails(startingOffsets=starting)
    else:
        query.run(startingOffsets=starting)
        assert query.seen() == expected(kafka_broker, topic)[10:]


PHASES = "rows are read", "rows are placed", "a micro-batch is done"


class Running:
    """A query in a process of its own, and what its folders say of where it is."""

    def __init__(self, url: str, topic: str, folder: Path) -> None:
        command = [sys.executable, "-m", "tests.support.spark.stream_job", url, f"events/{topic}", str(folder)]
        self.places = folder / "check" / "offsets", folder / "out" / "_spark_metadata", folder / "check" / "commits"
        self.before = self.done
        self.driver = Process("stream", command, cwd=ROOT, env={"PYTHONPATH": str(ROOT), **UNMEASURED})

    @property
    def done(self) -> int:
        """The number of the last micro-batch that is over."""
        return last(self.places[2])

    def phase(self) -> str:
        """A micro-batch is planned before its rows are read, and done when they have been placed."""
        planned, placed, done = map(last, self.places)
        if planned > done:
            return PHASES[1] if placed == planned else PHASES[0]
        return PHASES[2]

    def held(self, phase: str) -> bool:
        """Whether its Java, where the query runs, stands still in a phase, behind a micro-batch of this run."""
        assert self.driver.alive, f"not caught until the end of the topic: {phase}\n{self.driver.tail()}"
        if self.done == self.before or self.phase() != phase:
            return False
        hold(java := java_of(self.driver.pid))
        if self.phase() == phase:
            return True
        os.kill(java, signal.SIGCONT)
        return False


def last(folder: Path) -> int:
    """The highest number of a file of a checkpoint, or of the list of what a query has written."""
    return max((int(each.stem) for each in folder.glob("[0-9]*")), default=-1)


@pytest.mark.soak  # archive/test_kills.py kills once in `make test`
def test_a_driver_that_is_killed_leaves_nothing_out_and_nothing_twice(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, tmp_path: Path
) -> None:
    topic = kafka_broker.create_topic(partitions=2)
    phases = PHASES * KILLS
    count = 160 + 160 * len(phases)
    produce(kafka_broker, topic, count, 2)
    for phase in phases:
        run = Running(url, topic, tmp_path)
        try:
            wait_until(partial(run.held, phase), f"a driver that stands still: {phase}", 300)
        finally:
            kill_all(run.driver)
        assert run.phase() == phase
        print(f"stream: killed, {phase}: {run.done + 1} micro-batches are done")
    query = Query(spark, url, topic, tmp_path)
    query.run()
    rows = query.seen()
    assert rows == expected(kafka_broker, topic)
    assert len(rows) == len(consumed(kafka_broker, topic)) == count
    print(f"stream: {len(rows)} rows in the end, {len(set(rows))} different, {count} written")
