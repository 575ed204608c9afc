"""An archive that is a Delta table as well: each commit in it once, whatever was killed in between (issue 7, 2)."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bridges.spark.archive.archiving.job import LogBounds, commit_next
from bridges.spark.archive.archiving.kafka_origin import KafkaOrigin
from bridges.spark.archive.maintenance.compaction import CompactionTask, compact, place_due
from bridges.spark.archive.store import MANIFEST, STAGING, Archive
from bridges.spark.archive.verification import verify
from tests.support.gateway.process import UNMEASURED, Process, wait_until
from tests.support.project.parts import ROOT, folder
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import SMALL, command, consumed, here, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOW = 600.0
EVENTS = 40
OFTEN = "--conf", "spark.databricks.delta.properties.defaults.checkpointInterval=2"
"""Delta makes a checkpoint of its log every ten versions otherwise."""
FEW = [
    *("--conf", "spark.databricks.delta.snapshotPartitions=1", "--conf", "spark.sql.shuffle.partitions=1"),
    *("--conf", "spark.sql.codegen.wholeStage=false"),
]
"""A log of some lines is otherwise read in fifty tasks, each time, by stages that are compiled for it."""


def commits(archive: Path) -> int:
    return len(list((archive / MANIFEST).glob("[0-9]*.json")))


@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=pytest.mark.soak)], ids=["left", "killed"])
def test_each_commit_is_in_the_delta_table_once(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path, killed: bool
) -> None:
    """Also one that is in no transaction of Delta's log, as a job leaves it that is killed in between."""
    topic, archive = kafka_broker.create_topic(partitions=2), tmp_path / "archive"
    produce(kafka_broker, topic, EVENTS, 2)
    call = command("archive", archive, "--kafka", kafka_broker.bootstrap, "--topic", f"{topic}=orders/eu", "--once")
    call += ["--offsets", "20", "--master", "local[2]", "--jars", str(folder("spark-delta")), *SMALL[2:]]
    call += [*OFTEN, *FEW]
    log, staging = archive / "_delta_log", archive / STAGING
    if killed:  # between a commit and its transaction, which takes its time: Delta's classes are loaded
        process = Process("archive", [*call, "--format", "delta"])
        wait_until(lambda: commits(archive) == 1 and not any(staging.glob("*")), "the first commit", SLOW)
        process.end(signal.SIGKILL)
    else:
        origin = KafkaOrigin({"bootstrap.servers": kafka_broker.bootstrap}, {topic: "orders/eu"})
        with Archive(archive).writing():
            commit_next(spark, Archive(archive), origin, LogBounds(offsets=20))
    assert not list(log.glob("*.json"))
    with Archive(archive).writing():
        ((_, file),) = Archive(archive).readable().live_files()
    compact(Archive(archive), CompactionTask(file.folder, (file,)), 1 << 20, 3600)  # before the table knows any
    read = [sys.executable, "-m", "tests.support.spark.delta_reader", str(archive), *call[4:], "--format", "delta"]
    ended = subprocess.run(
        read, cwd=ROOT, env={**os.environ, **UNMEASURED}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert verify(Archive(archive)).problems == ()
    assert list(log.glob("*.checkpoint.parquet"))  # Delta's own, which verify has read

    found = json.loads(ended.stdout.splitlines()[-1])
    assert found["places"] == [[record.partition, record.offset] for record in consumed(kafka_broker, topic)]
    assert (found["versions"], found["first"], found["part"]) == (list(range(EVENTS // 20 + 1)), 20, 10)

    # the table has followed the compaction, so the replaced files may go
    assert [commit.kind for commit in place_due(Archive(archive), at_once=True)] == ["place"]
    assert verify(Archive(archive)).problems == ()

    said = here(*call[4:], "--format", "parquet")
    assert (said.returncode, said.stderr) == (1, f"{archive} is a Delta table: use --format delta\n")
    last = max(log.glob("*.json"))
    strange = json.dumps({"add": {"path": "address=orders%252Feu/date=1970-01-01/strange.parquet"}})
    last.with_name(f"{int(last.stem) + 1:020}.json").write_text(strange)
    assert verify(Archive(archive)).problems == (
        "the Delta table has address=orders%2Feu/date=1970-01-01/strange.parquet, which is in no commit",
    )
