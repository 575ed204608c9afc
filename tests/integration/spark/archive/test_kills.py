"""kill -9 of the driver in each phase of an archive and of a replay: nothing lost, nothing twice (issue 7, 2 and 3).

In one phase here, and in each (SCOPEGATE_KILLS times) in `make soak`, where which process is killed comes of the seed
(tests/support/plugins/seed.py).
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bridges.spark.archive.store import MANIFEST, STAGING, Archive
from bridges.spark.archive.verification import verify
from tests.support.gateway.process import Process, Timeout, is_stopped
from tests.support.plugins.seed import SEED
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import (
    KILLS,
    command,
    consumed,
    files,
    here,
    java_of,
    lent,
    offsets_in,
    produce,
    spark_options,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOW = 600.0
TRIES = 5
HOUR = 3_600_000
EVENTS = 400 + 800 * KILLS
"""Each kill leaves a commit or two of a hundred, or as many transactions."""
Phase = Callable[[], object]
Death = tuple[str, str]
"""A phase, and who is killed in it."""


def kills(phases: Sequence[str]) -> Iterator[Death]:
    """Phase and who is killed: the command itself or the Java of its Spark, the next time round the other."""
    for number in range(KILLS * len(phases)):
        around, place = divmod(number, len(phases))
        yield phases[place], "python" if (place + around + SEED) % 2 else "java"


def deaths(phases: Sequence[str], first: str) -> list[Any]:
    """Parameters: the command killed in one phase; in `make soak`, all that there is to kill in each."""
    each = list(kills(phases))
    return [pytest.param([(first, "python")], id="once"), pytest.param(each, id="each-phase", marks=pytest.mark.soak)]


def kill(process: Process, moment: Phase, who: str) -> bool:
    """Wait for the moment with hardly any rest, hold the command still, kill; whether the moment was not over yet."""
    deadline = time.monotonic() + SLOW
    while not moment():
        if not process.alive or time.monotonic() > deadline:
            raise Timeout(f"the moment did not come\n{process.tail()}")
        time.sleep(0.002)
    process.send_signal(signal.SIGSTOP)
    caught = process.alive and bool(moment())
    if who == "python" or not caught:
        process.end(signal.SIGKILL)
    else:
        bereave(process)
    return caught


def bereave(process: Process) -> None:
    """Kill the Java of a command that stands still, let that go on, and see that it ends with a sentence."""
    java = java_of(process.pid)
    assert java, process.tail()
    os.kill(java, signal.SIGKILL)
    process.send_signal(signal.SIGCONT)
    code = process.wait(SLOW)
    process.discard()
    *_, last = process.text().strip().splitlines()
    assert code in (0, 1), process.tail()  # what was under way may have needed no Java any more
    assert code == 0 or re.search(r"a process of Spark is gone|its Java process ended at once", last), process.tail()


# -- archive


def commits(archive: Path) -> int:
    return len(list((archive / MANIFEST).glob("[0-9]*.json")))


PLACING = "files go to their places"
ARCHIVE = "Spark starts", "a task starts", "files are written", PLACING, "behind a commit"
STANDING = f"""
import os, signal, sys
moved = []
def look(event, about):
    if event == "os.rename" and "/{STAGING}/" in str(about[0]) and "/{STAGING}/" not in str(about[1]):
        moved.append(about[0])
        if len(moved) == 2:
            os.kill(os.getpid(), signal.SIGSTOP)
sys.addaudithook(look)
from gateway.cli.main import main
main()
"""
"""The command, but it stands still when one file of its first commit is in its place: that takes milliseconds."""


class Archiving:
    """A run of the command, and what can be seen of its phases from outside."""

    def __init__(self, call: list[str], archive: Path, phase: str) -> None:
        self.archive, self.staging = archive, archive / STAGING
        self.before = commits(archive)
        standing = [sys.executable, "-c", STANDING, *call[3:]]
        self.process = Process("archive", standing if phase == PLACING else call)

    def moment(self, phase: str) -> Phase:
        return {
            "Spark starts": lambda: java_of(self.process.pid),
            "a task starts": lambda: any(self.staging.glob("*.token")),
            "files are written": lambda: any(self.staging.glob("*/*.parquet")) and commits(self.archive) == self.before,
            PLACING: lambda: commits(self.archive) > self.before and is_stopped(self.process.pid),
            "behind a commit": lambda: f"commit {self.before + 1}: " in self.process.text(),
        }[phase]

    def caught(self, phase: str) -> bool:
        """Whether what the command left is that of this phase."""
        now = commits(self.archive)
        if phase == PLACING:
            return now == self.before + 1 and any(self.staging.glob("*/*"))
        return now > self.before if phase == "behind a commit" else now == self.before


@pytest.mark.parametrize("deaths", deaths(ARCHIVE, PLACING))
def test_archive(spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path, deaths: Sequence[Death]) -> None:
    topic, archive = kafka_broker.create_topic(partitions=3), tmp_path / "archive"
    produce(kafka_broker, topic, EVENTS, 3, apart=HOUR)  # many days, so many files in each commit
    call = command("archive", archive, "--kafka", kafka_broker.bootstrap, "--topic", topic, "--once", *spark_options())
    for phase, who in deaths:
        for _ in range(TRIES):
            run = Archiving([*call, "--offsets", "100"], archive, phase)
            caught = kill(run.process, run.moment(phase), who)
            places = [place for file in files(archive) for place in offsets_in(file)]
            assert len(places) == len(set(places))
            if (archive / MANIFEST).exists():
                assert verify(Archive(archive)).problems == ()
            if caught := caught and (who == "java" or run.caught(phase)):
                break
        assert caught, f"{TRIES} times not caught: {phase}, {who} killed"
        print(f"archive: {who} killed, {phase}: {commits(archive)} commits, {len(places)} rows are seen")
    with lent(spark):
        assert (done := here(*call[4:])).returncode == 0, done.stderr
    verdict = verify(Archive(archive))
    assert (verdict.rows, verdict.problems) == (EVENTS, ())
    assert not (archive / STAGING).exists()
    places = sorted(place for file in files(archive) for place in offsets_in(file))
    assert places == [(record.partition, record.offset) for record in consumed(kafka_broker, topic)]
    print(f"archive: {len(places)} rows in the end, {len(set(places))} different, {EVENTS} written")
