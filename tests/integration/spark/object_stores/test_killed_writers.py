"""kill -9 of an archive job whose archive is in an object store: nothing lost, nothing twice, nothing left behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from bridges.spark.archive.read import read_archive
from bridges.spark.archive.storage.paths import storage_path
from bridges.spark.archive.store import Archive
from bridges.spark.archive.verification import verify
from tests.support.gateway.process import Process, wait_until
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.object_store import BUCKET, ObjectStore
from tests.support.spark.pipeline import (
    archived,
    command,
    consumed,
    here,
    kill_all,
    lent,
    produce,
    spark_options,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EVENTS, HOUR = 1200, 3_600_000
PHASES = "a task starts", "files are uploaded", "behind a commit"


def manifests(archive: Archive) -> int:
    return len([name for name in (archive.path / "_manifest").names() if name[0].isdigit()])  # type: ignore[union-attr]


def uploaded(archive: Archive) -> int:
    return len(list(archive.path.glob("address=*/date=*/*")))


def moment(phase: str, archive: Archive) -> Callable[[], bool]:
    before, files = manifests(archive), uploaded(archive)
    return {
        "a task starts": lambda: any(archive.path.glob("_staging/*")),
        "files are uploaded": lambda: uploaded(archive) > files,
        "behind a commit": lambda: manifests(archive) >= before + 2,  # the first one is the number of the job
    }[phase]


@pytest.mark.soak
def test_a_job_that_is_killed_leaves_nothing_out_and_nothing_twice(
    spark: SparkSession, kafka_broker: KafkaBroker, object_store: ObjectStore
) -> None:
    topic, url = kafka_broker.create_topic(partitions=3), f"s3://{BUCKET}/killed"
    produce(kafka_broker, topic, EVENTS, 3, apart=HOUR)  # many days, so many files in each commit
    call = command("archive", url, "--kafka", kafka_broker.bootstrap, "--topic", topic, "--once")
    with object_store.in_environment():
        archive = Archive(storage_path(url))
        for phase in 2 * PHASES:
            there = moment(phase, archive)
            process = Process("archive", [*call, "--offsets", "100", *spark_options()])
            wait_until(there, phase, seconds=120)
            assert process.alive, process.tail()
            kill_all(process)
            assert verify(archive).problems == ()
            rows = verify(archive).rows
            print(f"killed, {phase}: {manifests(archive)} manifests, {uploaded(archive)} files, {rows} rows")
        tasks = spark.sparkContext.environment
        tasks.update(object_store.environment)
        try:
            with lent(spark):
                assert (done := here(*call[4:])).returncode == 0, done.stderr
            assert archived(read_archive(spark, archive).collect()) == consumed(kafka_broker, topic)
        finally:
            for name in object_store.environment:
                tasks.pop(name)
        verdict = verify(archive)
        assert (verdict.rows, verdict.problems) == (EVENTS, ())
        assert uploaded(archive) == sum(1 for _ in archive.readable().live_files())
        # what marks files of the killed job stays for a day: one of its requests might still be under way
        assert {path.name.rpartition(".")[2] for path in archive.path.glob("_staging/*")} <= {"token"}
