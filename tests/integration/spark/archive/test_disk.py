"""A disk that is full, a real one: one sentence, nothing half written is seen, and on it goes when there is room."""

from __future__ import annotations

import json
import resource
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.store import STAGING, Archive
from bridges.spark.archive.verification import verify
from bridges.spark.datasource.options import read_options
from bridges.spark.datasource.source import ScopeGateDataSource
from bridges.spark.errors import PipelineError, sentence
from bridges.spark.replay.amqp_target import AmqpTarget
from tests.support.servers.disk import BLOCK, SmallDisk, small_disk
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark import archives
from tests.support.spark.pipeline import SMALL, command, consumed, files, gateway_urls, pipeline, produce, spark_options
from tests.support.spark.queries import run_to_end
from tests.support.spark.report import events
from tests.support.spark.simulation import JOURNAL, NOW, candidate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    with small_disk(tmp_path / "disk", 4 << 20) as disk:
        yield disk


@pytest.fixture(scope="module")
def url(kafka_broker: KafkaBroker) -> Iterator[str]:
    with gateway_urls(kafka_broker) as (url, _):
        yield url


def archive_more(spark: SparkSession, archive: Archive, origin: KafkaOrigin, bounds: LogBounds = LogBounds()) -> None:  # noqa: B008
    with archive.writing():
        while commit_next(spark, archive, origin, bounds):
            pass


@pytest.mark.soak
def test_an_archive_stays_as_it_was_and_goes_on_when_there_is_room(
    spark: SparkSession, kafka_broker: KafkaBroker, disk: SmallDisk
) -> None:
    topic, archive = kafka_broker.create_topic(), Archive(disk.path / "archive")
    origin = KafkaOrigin({"bootstrap.servers": kafka_broker.bootstrap}, {topic: "o"})
    produce(kafka_broker, topic, 100, 1)
    archive_more(spark, archive, origin)
    before = files(archive.path)
    produce(kafka_broker, topic, 5000, 1, first=100)
    for left in (10 * BLOCK, 0):
        disk.fill(left)
        with pytest.raises(PipelineError, match=r"^commit 2: the disk is full$"):
            archive_more(spark, archive, origin)
        assert files(archive.path) == before
        assert not (archive.path / STAGING).exists()  # what was begun gives its room back
        assert (verify(archive).rows, verify(archive).problems) == (100, ())
    disk.free()
    most = 2 * before[0].stat().st_size
    archive_more(spark, archive, origin, LogBounds(file_bytes=most))
    assert (verify(archive).rows, verify(archive).problems) == (5100, ())
    assert len(added := archive.commits()[1].files) > 1
    assert max(file.bytes for file in added) <= most  # a file's size is bounded, too


def test_a_disk_that_is_full_when_the_commit_is_written_leaves_no_commit(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    with archive.writing():
        staging = archive.stage(1)
        assert isinstance(staging, Path)
        staging.mkdir()
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, before[1]))
        try:
            with pytest.raises(OSError, match="File too large"):
                archive.commit(1, staging, [Range("orders", number, 0, 10, 10) for number in range(20)], [])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert not archive.placed()
    assert sorted(path.name for path in (archive.path / "_manifest").iterdir()) == [".commit", ".lock"]


@pytest.mark.soak
def test_the_command_says_so_and_exits_1(kafka_broker: KafkaBroker, disk: SmallDisk) -> None:
    topic = kafka_broker.create_topic()
    produce(kafka_broker, topic, 100, 1)
    call = command("archive", disk.path / "archive", "--kafka", kafka_broker.bootstrap, "--topic", topic, "--once")
    disk.fill()
    done = pipeline(*call[4:], "--wait", "0s", *spark_options())
    assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "commit 1: the disk is full")
    assert not Archive(disk.path / "archive").placed()


@pytest.mark.soak
def test_a_report_and_a_simulation_leave_what_there_was(disk: SmallDisk, tmp_path: Path) -> None:
    archives.written(tmp_path / "archive", {"orders": events()})
    out, journal = disk.path / "report", tmp_path / "journal.jsonl"
    small = "--master", "local[2]"
    assert (done := pipeline("report", tmp_path / "archive", "--out", out, *small, *SMALL)).returncode == 0, done.stderr
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    (tmp_path / "now.yaml").write_text(NOW)
    (tmp_path / "new.yaml").write_text(candidate())
    journal.write_text("".join(f"{json.dumps(row)}\n" for row in JOURNAL))
    policies = "--policy", tmp_path / "now.yaml", "--candidate", tmp_path / "new.yaml"
    disk.fill()
    for call, place in (
        (("report", tmp_path / "archive", "--out", out, *SMALL), out),
        (("simulate", *policies, "--journal", journal, "--out", disk.path / "rows"), disk.path / "rows"),
    ):
        done = pipeline(*call, *small)
        said = done.stderr.splitlines()[-1].removeprefix("pipeline simulate: ")
        assert (done.returncode, said) == (1, f"{place} cannot be written: the disk is full")
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    assert {path.name for path in disk.path.iterdir()} == {"ballast", "report"}


def test_a_commit_that_cannot_be_put_in_its_place_waits_for_the_next_job(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    with archive.writing():
        staging = archive.stage(1)
        assert isinstance(staging, Path)
        rows = staging / "address=o" / "date=2026-11-22" / "part.parquet"
        rows.parent.mkdir(parents=True)
        rows.write_bytes(b"rows")
        (tmp_path / "address=o").write_text("in the way")
        with pytest.raises(OSError, match="address=o"):
            archive.commit(1, staging, [Range("o", 0, 0, 1, 1)], archives.staged(staging, 1))
    assert (len(archive.commits()), archive.placed()) == (1, [])
    with pytest.raises(PipelineError, match=r"the last commit is not in place yet: .*address=o"), archive.writing():
        pass
    (tmp_path / "address=o").unlink()
    with archive.writing():
        assert [path.read_bytes() for path in files(tmp_path)] == [b"rows"]
    assert len(archive.placed()) == 1


def test_a_replay_sends_nothing_while_its_progress_cannot_be_kept(
    kafka_broker: KafkaBroker, url: str, disk: SmallDisk
) -> None:
    topic, state = kafka_broker.create_topic(), disk.path / "archive" / "_replays" / "name.json"
    state.parent.parent.mkdir()
    options = read_options({"url": url, "address": f"events/{topic}"})
    disk.fill()
    with pytest.raises(PipelineError) as raised:
        AmqpTarget(options, state, "orders")
    assert str(raised.value) == f"the progress in {state} cannot be stored: the disk is full"
    assert not list(state.parent.iterdir())
    disk.free()
    assert AmqpTarget(options, state, "orders").progress == {}


@pytest.mark.soak
def test_a_streaming_writer_sends_nothing_and_goes_on_when_there_is_room(
    spark: SparkSession, kafka_broker: KafkaBroker, url: str, disk: SmallDisk, tmp_path: Path
) -> None:
    first, second = kafka_broker.create_topic(), kafka_broker.create_topic()
    produce(kafka_broker, first, 20, 1, first=100)
    spark.dataSource.register(ScopeGateDataSource)
    (disk.path / "progress").mkdir()
    frame = spark.readStream.format("scopegate").options(url=url, address=f"events/{first}").load()

    def run() -> None:
        sink: Any = frame.writeStream.format("scopegate").options(url=url, address=f"events/{second}")
        sink = sink.options(checkpointLocation=str(tmp_path / "check"), progressLocation=str(disk.path / "progress"))
        run_to_end(sink.trigger(availableNow=True))

    disk.fill()
    with pytest.raises(Exception, match="PipelineError") as raised:
        run()
    assert sentence(raised.value).endswith(" cannot be stored: the disk is full")
    assert consumed(kafka_broker, second) == []
    disk.free()
    run()
    assert [each.value for each in consumed(kafka_broker, second)] == [
        each.value for each in consumed(kafka_broker, first)
    ]
