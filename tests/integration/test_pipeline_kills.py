"""kill -9 of the driver in each phase of an archive and of a replay: nothing lost, nothing twice (issue 7, 2 and 3).

Once in each phase here; `make kills` does it ten times (SCOPEGATE_KILLS), and says what it caught.
"""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from bridges.spark.archive import MANIFEST, STAGING, Archive
from bridges.spark.archiving import verify
from tests.support.kafka import KafkaBroker
from tests.support.pipeline import (
    KILLS,
    Record,
    Watermarks,
    command,
    consumed,
    files,
    java_of,
    offsets_in,
    pipeline,
    produce,
    spark_options,
)
from tests.support.process import Process, Timeout, wait_until

SLOW = 600.0
TRIES = 5
HOUR = 3_600_000
EVENTS = 400 + 800 * KILLS
"""Each kill leaves a commit or two of a hundred, or as many transactions."""
Phase = Callable[[], object]


def kills(phases: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Phase and who is killed: the command itself or the Java of its Spark, the next time round the other."""
    for number in range(KILLS * len(phases)):
        around, place = divmod(number, len(phases))
        yield phases[place], "java" if (place + around) % 2 else "python"


def kill(process: Process, moment: Phase, who: str) -> None:
    """Wait for the moment, with hardly any rest, and kill."""
    deadline = time.monotonic() + SLOW
    while not moment():
        if not process.alive or time.monotonic() > deadline:
            raise Timeout(f"the moment did not come\n{process.tail()}")
        time.sleep(0.002)
    if who == "python":
        process.end(signal.SIGKILL)
        return
    os.kill(java_of(process.pid), signal.SIGKILL)
    code = process.wait(SLOW)
    process.discard()
    *_, last = process.text().strip().splitlines()
    assert code in (0, 1), process.tail()  # what was under way may have needed no Java any more
    assert code == 0 or re.search(r"a process of Spark is gone|its Java ended at once", last), process.tail()


# -- archive


def commits(archive: Path) -> int:
    return len(list((archive / MANIFEST).glob("[0-9]*.json")))


ARCHIVE = "Spark starts", "rows are written", "files are counted", "files go to their places", "behind a commit"


class Archiving:
    """A run of the command, and what can be seen of its phases from outside."""

    def __init__(self, call: list[str], archive: Path) -> None:
        self.archive, self.staging = archive, archive / STAGING
        self.before = commits(archive)
        self.process = Process("archive", call)

    def moment(self, phase: str) -> Phase:
        return {
            "Spark starts": lambda: java_of(self.process.pid),
            "rows are written": lambda: any(self.staging.glob("*/_temporary")),
            "files are counted": lambda: any(self.staging.glob("*/_SUCCESS")) and commits(self.archive) == self.before,
            "files go to their places": lambda: commits(self.archive) > self.before and any(self.staging.glob("*/*")),
            "behind a commit": lambda: f"commit {self.before + 1}: " in self.process.text(),
        }[phase]

    def caught(self, phase: str) -> bool:
        """Whether the driver died in this phase: those that pass quickly it may have left before it died."""
        now = commits(self.archive)
        if phase == "files go to their places":
            return now == self.before + 1 and any(self.staging.glob("*/*"))
        return now > self.before if phase == "behind a commit" else now == self.before


def test_archive(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    topic, archive = kafka_broker.create_topic(partitions=3), tmp_path / "archive"
    produce(kafka_broker, topic, EVENTS, 3, apart=HOUR)  # many days, so many files in each commit
    call = command("archive", archive, "--kafka", kafka_broker.bootstrap, "--topic", topic, "--once", *spark_options())
    for phase, who in kills(ARCHIVE):
        for _ in range(TRIES):
            run = Archiving([*call, "--offsets", "100"], archive)
            kill(run.process, run.moment(phase), who)
            places = [place for file in files(archive) for place in offsets_in(file)]
            assert len(places) == len(set(places))
            if (archive / MANIFEST).exists():
                assert verify(Archive(archive)).problems == ()
            if caught := who == "java" or run.caught(phase):
                break
        print(f"archive: {who} killed, {phase}: {commits(archive)} commits, {len(places)} rows are seen")
        assert caught, f"five times not caught: {phase}"
    assert (done := pipeline(*call[4:])).returncode == 0, done.stderr
    verdict = verify(Archive(archive))
    assert (verdict.rows, verdict.problems) == (EVENTS, ())
    assert not (archive / STAGING).exists()
    places = sorted(place for file in files(archive) for place in offsets_in(file))
    assert places == [(record.partition, record.offset) for record in consumed(kafka_broker, topic)]
    print(f"archive: {len(places)} rows in the end, {len(set(places))} different, {EVENTS} written")


# -- replay

REPLAY = "Spark starts", "in a transaction", "behind a transaction"


@pytest.fixture
def archived(kafka_broker: KafkaBroker, tmp_path: Path) -> tuple[str, Path]:
    """A topic and its archive."""
    topic, archive = kafka_broker.create_topic(partitions=3), tmp_path / "archive"
    produce(kafka_broker, topic, EVENTS, 3)
    call = "archive", archive, "--kafka", kafka_broker.bootstrap, "--topic", topic, "--once", "--offsets", "800"
    assert (done := pipeline(*call, *spark_options())).returncode == 0, done.stderr
    return topic, archive


def test_replay(kafka_broker: KafkaBroker, archived: tuple[str, Path]) -> None:
    topic, archive = archived
    target = kafka_broker.create_topic(partitions=3)
    call = command("replay", archive, "--from", topic, "--kafka", kafka_broker.bootstrap, "--topic", target)
    call += map(str, spark_options())
    ends = Watermarks(kafka_broker, target, 3)

    def phases(process: Process) -> dict[str, Phase]:
        return {
            "Spark starts": lambda: java_of(process.pid),
            "in a transaction": ends.open,
            "behind a transaction": lambda: "events written" in process.text(),
        }

    for phase, who in kills(REPLAY):
        process = Process("replay", [*call, "--rate", "100"])
        if phase == "in a transaction":  # one that a run before left open is ended by this one
            wait_until(lambda: "starting Spark" in process.text() and not ends.open(), "a new transaction", SLOW)  # noqa: B023
        kill(process, phases(process)[phase], who)
        print(f"replay: {who} killed, {phase}; a transaction is {'open' if ends.open() else 'not open'}")
    ends.close()
    assert (done := pipeline(*call[4:])).returncode == 0, done.stderr
    found, wanted = consumed(kafka_broker, target), consumed(kafka_broker, topic)
    print(f"replay: {len(found)} events in the end, {len(wanted)} were archived")
    assert list(map(unplaced, found)) == list(map(unplaced, wanted))


def unplaced(record: Record) -> Record:
    """A record without its offset: transactions take offsets, too."""
    return record._replace(offset=0)
