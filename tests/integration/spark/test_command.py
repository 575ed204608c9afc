"""`scopegate pipeline`: the real command, told to end, set by a policy file, and what it says of mistakes."""

from __future__ import annotations

import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bridges.spark.archive.store import MANIFEST, STAGING, Archive
from bridges.spark.archive.verification import verify
from tests.support.gateway.process import Process, wait_until
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark import archives
from tests.support.spark.pipeline import archiving_policy, command, here, lent, produce, told_to_end
from tests.support.spark.report import events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOW = 240.0


def commits(archive: Path) -> int:
    return len(list((archive / MANIFEST).glob("[0-9]*.json")))


def test_sigterm_ends_behind_the_commit_under_way_and_the_next_run_goes_on(
    spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    (file, topic), archive = archiving_policy(kafka_broker, tmp_path), tmp_path / "archive"
    archived = Archive(archive)
    produce(kafka_broker, topic, 3000, 3)
    call = command("archive", "--policy", file)
    process = Process("archive", [*call, "--once"])
    wait_until(lambda: "commit 1: 20 events" in process.text(), "the first of 150 commits", SLOW)
    assert process.end(signal.SIGTERM, SLOW) == 1
    *_, last = process.text().strip().splitlines()
    assert last == "stopped before the end of the logs: run the same command to continue"
    reported = process.text().count("commit ")
    assert 0 < reported == commits(archive) < 150
    assert (verify(archived).rows, verify(archived).problems) == (20 * reported, ())

    whole: list[int] = []  # commits when all that was there is archived; what comes later may take more than one

    def all_archived() -> bool:
        if verify(archived).rows == 3000:
            whole.append(commits(archive))
            produce(kafka_broker, topic, 30, 3, first=3000)
            wait_until(lambda: verify(archived).rows == 3030, "what came later", SLOW)
        return verify(archived).rows == 3030

    with lent(spark), told_to_end(all_archived, "the whole topic", SLOW):
        done = here("archive", "--policy", file, "--offsets", "5000")  # the command line wins
    assert done.returncode == 0, done.stderr
    assert whole == [reported + 1]
    assert commits(archive) > reported + 1
    assert not (archive / STAGING).exists()

    said = here("verify", archive)
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.splitlines()[0] == "orders, partition 0: offsets 0 to 1009, 1010 events"
    shutil.rmtree(next(archive.glob("address=*")))
    said = here("verify", archive)
    assert said.returncode == 1
    assert said.stderr.startswith("wrong: commit 1: ")


@pytest.mark.soak
def test_sigterm_while_spark_starts_leaves_nothing(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    (file, topic), archive = archiving_policy(kafka_broker, tmp_path), tmp_path / "archive"
    produce(kafka_broker, topic, 3000, 3)
    process = Process("archive", command("archive", "--policy", file))
    wait_until(lambda: "starting Spark" in process.text(), "Spark to start", SLOW)
    assert process.end(signal.SIGTERM, SLOW) == 0, process.tail()  # without --once there is no end to miss
    assert commits(archive) == 0


def test_a_mistake_in_the_policy_is_named_with_its_place(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("scopes: {edge: {}}\npipeline:\n  kafka: main\n  archive: {file_sise: 1MiB, start: soon}\n")
    said = here("archive", tmp_path / "archive", "--policy", file, "--topic", "t")
    assert said.returncode == 1
    assert said.stderr.splitlines() == [
        f"Error: {file}:3:10: pipeline.kafka: there is no Kafka cluster main (allowed: none yet)",
        f"{file}:4:13: pipeline.archive.file_sise: unknown key; did you mean file_size? (allowed: path, s3_endpoint, "
        "s3_region, topics, start, every, offsets, file_size, format, wait, metrics, fail_on_data_loss, "
        "fail_on_unknown_mapping)",
        f'{file}:4:37: pipeline.archive.start: must be earliest, latest or a time, like "2026-11-21T12:00:00Z"',
    ]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("verify", "{tmp}"), 1, "{tmp} is not an archive: it has no _manifest"),
        (("archive", "{tmp}", "--topic", "t"), 2, "name the Kafka servers: --kafka HOST:PORT, or --policy FILE"),
        (
            ("archive", "{tmp}", "--topic", "nowhere", "--kafka", "{kafka}"),
            1,
            "Kafka at {kafka} has no topic nowhere",
        ),
        (
            ("archive", "{tmp}", "--topic", "t", "--kafka", "{kafka}", "--jars", "{tmp}", "--format", "delta"),
            1,
            "{tmp} does not contain the 2 jars of Delta Lake: run scopegate pipeline jars",
        ),
        (
            ("replay", "{tmp}", "--from", "a", "--topic", "t", "--kafka", "{kafka}"),
            1,
            "{tmp} is not an archive: it has no _manifest",
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
    known = {"tmp": tmp_path, "kafka": kafka_broker.bootstrap}
    result = here(*(each.format(**known) for each in arguments))
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
    arguments = "--kafka", kafka_broker.bootstrap, "--topic", topic
    result = here("archive", tmp_path / "archive", *arguments)
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1
    assert said in result.stderr
    assert result.stderr.startswith("Spark needs Java 17 or later, and ")


@pytest.mark.parametrize(
    "call",
    [
        ("replay", "{archive}", "--from", "orders", "--topic", "{topic}", "--kafka", "{kafka}"),
        ("report", "{archive}", "--out", "{out}"),
        ("quickstart", "--once", "--folder", "{out}"),
    ],
)
def test_without_java_a_command_makes_nothing(
    kafka_broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: tuple[str, ...]
) -> None:
    archive, out = tmp_path / "archive", tmp_path / "out"
    archives.written(archive, {"orders": events()})
    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    topic, kafka = kafka_broker.create_topic(), kafka_broker.bootstrap
    result = here(*(each.format(archive=archive, out=out, kafka=kafka, topic=topic) for each in call))
    assert (result.returncode, result.stdout) == (1, "")
    said = f"Spark needs Java 17 or later, and there is none in JAVA_HOME={tmp_path}: apt-get install "
    assert result.stderr.startswith(said)
    assert result.stderr.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == before
