"""`scopegate pipeline`: the real command, killed at any time, and what it says of mistakes."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bridges.spark.archive import MANIFEST, STAGING, Archive
from bridges.spark.archiving import verify
from tests.support.kafka import KafkaBroker
from tests.support.pipeline import command, consumed, files, pipeline, produce, spark_options
from tests.support.process import Process, wait_until

KILLS = int(os.environ.get("SCOPEGATE_PIPELINE_KILLS", "2"))
"""How often the driver is killed; ten goes through every phase more than once (half a minute for each)."""
SLOW = 240.0


def commits(archive: Path) -> int:
    return len(list((archive / MANIFEST).glob("[0-9]*.json")))


def phases(archive: Path, process: Process) -> list[Callable[[], bool]]:
    """When to kill: rows are written, a file is there, behind a commit, Spark starts."""
    before = commits(archive)
    staging = archive / STAGING
    return [
        lambda: any(staging.rglob("*.parquet")),
        lambda: commits(archive) > before,
        lambda: any(staging.glob("*")),
        lambda: (archive / MANIFEST).exists() and process.alive,
    ]


def test_a_driver_killed_at_any_time_loses_and_doubles_nothing(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic, archive = kafka_broker.create_topic(partitions=3), tmp_path / "archive"
    produce(kafka_broker, topic, 3000, 3)
    call = command("archive", archive, "--kafka", kafka_broker.bootstrap, "--topic", topic, *spark_options())
    for number in range(KILLS):
        process = Process("archive", [*call, "--offsets", "200", "--once"])
        moment = phases(archive, process)[number % 4]
        wait_until(lambda: moment() or not process.alive, f"phase {number % 4}", SLOW)  # noqa: B023
        process.end(signal.SIGKILL)
        readable = [pq.ParquetFile(file).read(columns=["partition", "offset"]).to_pylist() for file in files(archive)]
        places = [(row["partition"], row["offset"]) for rows in readable for row in rows]
        assert len(places) == len(set(places))
    process = Process("archive", call)
    wait_until(lambda: commits(archive) and verify(Archive(archive)).rows == 3000, "the whole topic", SLOW)
    assert process.end(signal.SIGTERM, SLOW) == 0, process.tail()
    assert verify(Archive(archive)).problems == ()
    stored = sorted(
        (row["partition"], row["offset"], row["key"])
        for file in files(archive)
        for row in pq.ParquetFile(file).read(columns=["partition", "offset", "key"]).to_pylist()
    )
    assert stored == [(record.partition, record.offset, record.key) for record in consumed(kafka_broker, topic)]

    said = pipeline("verify", archive)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[0] == f"{topic}, partition 0: offsets 0 to 999, 1000 events"
    shutil.rmtree(next(archive.glob("address=*")))
    said = pipeline("verify", archive)
    assert said.returncode == 1
    assert said.stderr.startswith("wrong: commit 1: ")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("verify", "{tmp}"), 1, "{tmp} is no archive: it has no _manifest"),
        (("archive", "{tmp}", "--topic", "t"), 2, "say where Kafka is: --kafka HOST:PORT, or --policy FILE"),
        (
            ("archive", "{tmp}", "--topic", "nowhere", "--kafka", "{kafka}", "--jars", "{jars}"),
            1,
            "Kafka at {kafka} has no topic nowhere",
        ),
        (
            ("archive", "{tmp}", "--topic", "t", "--kafka", "{kafka}", "--jars", "{tmp}"),
            1,
            "{tmp} does not hold the 4 jars of Spark's Kafka source: scopegate pipeline jars",
        ),
        (
            ("replay", "{tmp}", "--from", "a", "--topic", "t", "--kafka", "{kafka}"),
            1,
            "{tmp} is no archive: it has no _manifest",
        ),
        (
            ("replay", "{tmp}", "--from", "a", "--topic", "t", "--kafka", "{kafka}", "--offsets", "7"),
            2,
            "'7' is not PARTITION:START-END, such as 0:100-200",
        ),
    ],
)
def test_mistakes_are_one_sentence(
    kafka_broker: KafkaBroker, tmp_path: Path, arguments: tuple[str, ...], code: int, said: str
) -> None:
    known = {"tmp": tmp_path, "kafka": kafka_broker.bootstrap, "jars": spark_options()[3]}
    result = pipeline(*(each.format(**known) for each in arguments))
    assert result.returncode == code
    assert result.stderr.strip().splitlines()[-1].removeprefix("Error: ") == said.format(**known)


@pytest.mark.parametrize(("version", "said"), [("", "there is none in JAVA_HOME="), ("1.8.0", "is Java 8")])
def test_java_that_is_missing_or_too_old_is_said(
    kafka_broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, said: str
) -> None:
    topic, home = kafka_broker.create_topic(), tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    if version:
        program = home / "bin" / "java"
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
        program.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(home))
    arguments = "--kafka", kafka_broker.bootstrap, "--topic", topic, "--jars", spark_options()[3]
    result = pipeline("archive", tmp_path / "archive", *arguments)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    assert result.stderr.startswith("Spark needs Java 17 or later, and ")
