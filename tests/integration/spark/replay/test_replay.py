"""Replay to a topic on a real Kafka broker: the records as they were, each once, in the order of each partition."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import pytest

from bridges.kafka.produce.replayer import fence
from bridges.spark.archive.read import ArchiveSelection
from bridges.spark.archive.store import Archive
from bridges.spark.errors import PipelineError
from bridges.spark.jobs import replay
from bridges.spark.jobs.replay import replay_target
from bridges.spark.replay import job
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import Record, consumed, here, lent, produce, settled

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADDRESS = "orders/eu"
ALL = ArchiveSelection((ADDRESS,))


class Kept(NamedTuple):
    """A topic and its archive of two commits, for tests that change neither."""

    archive: Archive
    seen: list[Record]


@pytest.fixture(scope="module")
def kept(spark: SparkSession, kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Kept:
    topic, path = kafka_broker.create_topic(partitions=3), tmp_path_factory.mktemp("kept") / "archive"
    produce(kafka_broker, topic, 300, 3)
    what = ("--kafka", kafka_broker.bootstrap, "--topic", f"{topic}={ADDRESS}", "--once", "--offsets", "200")
    with lent(spark):
        assert (done := here("archive", path, *what)).returncode == 0, done.stderr
        produce(kafka_broker, topic, 50, 3, first=300)
        assert (done := here("archive", path, *what)).returncode == 0, done.stderr
    return Kept(Archive(path), consumed(kafka_broker, topic))


class Replays:
    """Replays of one name to one topic."""

    def __init__(self, spark: SparkSession, broker: KafkaBroker, archive: Archive, partitions: int = 3) -> None:
        self._spark, self._broker, self._archive = spark, broker, archive
        self.topic = broker.create_topic(partitions=partitions)
        self.told: list[int] = []

    def run(
        self,
        selection: ArchiveSelection = ALL,
        rate: float | None = None,
        stop: threading.Event | None = None,
        on_progress: Callable[[int], object] = lambda _: None,
    ) -> int:
        """Run a replay, and wait until its last transaction can be seen."""
        target = replay_target({"bootstrap.servers": self._broker.bootstrap}, self.topic, self.topic, ADDRESS)
        fence(target)
        write = partial(job.write_records, self._spark, self._archive, selection, target)

        def tell(written: int) -> None:
            self.told.append(written)
            on_progress(written)

        count = write(rate=rate, stop=stop or threading.Event(), on_progress=tell)
        settled(self._broker, self.topic)
        return count

    def seen(self) -> list[Record]:
        """What readers of committed records see, without the offsets."""
        return list(map(unplaced, consumed(self._broker, self.topic)))


def unplaced(record: Record) -> Record:
    """A record without its offset: transactions take offsets, too."""
    return record._replace(offset=0)


def test_what_is_replayed_is_the_same_again(spark: SparkSession, kafka_broker: KafkaBroker, kept: Kept) -> None:
    again = Replays(spark, kafka_broker, kept.archive)
    assert again.run() == 350
    assert again.seen() == list(map(unplaced, kept.seen))
    assert again.told[-1] == 350
    assert again.run() == 0  # the same job has nothing more to do


def test_what_is_selected_is_what_a_replay_sends(spark: SparkSession, kafka_broker: KafkaBroker, kept: Kept) -> None:
    """By address, time, offsets and filter."""
    since, until = (datetime.fromtimestamp(each / 1000, UTC) for each in (10_050, 10_250))  # events 50 to 249
    chosen = ArchiveSelection((ADDRESS,), since, until, {0: (20, 60), 2: (0, 90)}, "a.color = 'red'")
    wanted = [
        record
        for record in kept.seen
        if 10_050 <= record.timestamp[1] < 10_250
        and ((record.partition == 0 and 20 <= record.offset < 60) or record.partition == 2)
        and ("color", b"red") in record.headers
    ]
    again = Replays(spark, kafka_broker, kept.archive)
    assert again.run(chosen) == len(wanted) > 5
    assert again.seen() == list(map(unplaced, wanted))
    assert job.count(kept.archive, chosen) == len(wanted)


def test_partitions_share_those_of_a_smaller_topic(spark: SparkSession, kafka_broker: KafkaBroker, kept: Kept) -> None:
    """By their number modulo the count, each still in its order; a topic that grows does not change the progress."""
    again = Replays(spark, kafka_broker, kept.archive, partitions=2)
    assert again.run(ArchiveSelection((ADDRESS,), offsets={0: (0, 50), 1: (0, 50), 2: (0, 50)})) == 150
    kafka_broker.grow(again.topic, 3)
    assert again.run() == 200
    found = consumed(kafka_broker, again.topic)
    for source in range(3):
        own = [record.value for record in kept.seen if record.partition == source]
        first = [record.value for record in found if record.partition == source % 2 and record.value in own[:50]]
        assert first == own[:50]
        assert [each.value for each in found if each.partition == source and each.value in own[50:]] == own[50:]


def test_a_replay_that_was_stopped_goes_on_behind_its_last_transactions(
    spark: SparkSession, kafka_broker: KafkaBroker, kept: Kept
) -> None:
    again, stop = Replays(spark, kafka_broker, kept.archive), threading.Event()
    count = again.run(rate=20, stop=stop, on_progress=lambda _: stop.set())
    assert 0 < count < 350
    assert len(again.seen()) == count
    assert again.run() == 350 - count
    assert again.seen() == list(map(unplaced, kept.seen))


def test_a_topic_that_is_recreated_meanwhile_ends_the_replay_with_a_message(
    kafka_broker: KafkaBroker, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ended with all events written, most of them to a topic that was gone."""
    topic, settings = kafka_broker.create_topic(), {"bootstrap.servers": kafka_broker.bootstrap}

    def write_records(*about: object, **more: object) -> int:
        kafka_broker.recreate(topic)
        return 350

    monkeypatch.setattr(job, "write_records", write_records)
    monkeypatch.setattr(replay, "running", lambda *about: nullcontext((None, threading.Event())))
    with pytest.raises(PipelineError, match=f"^topic {topic} was recreated during the replay .*, create it again"):
        replay.replay_to_topic(kept.archive.path, ALL, settings, topic)
