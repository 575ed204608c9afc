"""kill -9 of a replay's driver, its Java and its tasks: each event is written once, whoever dies (issue 18, 2).

In each phase, SCOPEGATE_KILLS times.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.gateway.process import Process, Timeout
from tests.support.servers.kafka import KafkaBroker
from tests.support.spark.pipeline import (
    KILLS,
    Record,
    Watermarks,
    command,
    consumed,
    here,
    java_of,
    kill_all,
    lent,
    produce,
    settled,
    spark_options,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLOW = 600.0
EVENTS = 600 + 600 * KILLS
PARTITIONS = 3
Death = tuple[str, str]
"""A phase, and who is killed in it."""
PHASES: tuple[Death, ...] = (
    ("Spark starts", "driver"),
    ("in a transaction", "driver"),
    ("in a transaction", "java"),
    ("behind a transaction", "driver"),
)


@pytest.fixture
def archived(spark: SparkSession, kafka_broker: KafkaBroker, tmp_path: Path) -> tuple[str, Path]:
    """A topic and its archive."""
    topic, archive = kafka_broker.create_topic(partitions=PARTITIONS), tmp_path / "archive"
    produce(kafka_broker, topic, EVENTS, PARTITIONS)
    with lent(spark):
        done = here("archive", archive, "--kafka", kafka_broker.bootstrap, "--topic", topic, "--once")
    assert done.returncode == 0, done.stderr
    return topic, archive


def below(pid: int) -> Iterator[int]:
    """The processes that this one started, and theirs."""
    with contextlib.suppress(OSError):
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in map(int, children.read_text().split()):
                yield child
                yield from below(child)


class Replaying:
    """A run of the command with small transactions, and what can be seen of it from outside."""

    def __init__(self, call: Sequence[str], ends: Watermarks) -> None:
        self._ends = ends
        self.process = Process("replay", [*call, "--rate", "150"])

    def _tasks(self) -> list[int]:
        """Spark's Python: its daemon, and a process for each task."""
        java = java_of(self.process.pid)
        return list(below(java)) if java else []

    def _signal(self, number: int) -> None:
        for pid in self._tasks():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def _written(self) -> bool:
        return "events written" in self.process.text()

    def _held(self) -> bool:
        """Whether the tasks stand still within a transaction; they go step by step until they do."""
        if not self._written():
            return False  # until here, a run before may have left one open
        self._signal(signal.SIGSTOP)
        if self._ends.open():
            return True
        self._signal(signal.SIGCONT)
        return False

    def reach(self, phase: str) -> None:
        """Wait for a phase; in a transaction, the tasks stand still then."""
        reached = {
            "Spark starts": lambda: java_of(self.process.pid) != 0,
            "in a transaction": self._held,
            "behind a transaction": lambda: self._written() and not self._ends.open(),
        }[phase]
        deadline = time.monotonic() + SLOW
        while not reached():
            if not self.process.alive or time.monotonic() > deadline:
                raise Timeout(f"the phase did not come: {phase}\n{self.process.tail()}")
            time.sleep(0.002)

    def kill(self, who: str) -> None:
        """Kill the driver with everything, its Java, or the tasks."""
        tasks = self._tasks()
        if who == "tasks":
            self._signal(signal.SIGKILL)
            return
        if who == "java":
            os.kill(java_of(self.process.pid), signal.SIGKILL)
            assert self.process.wait(SLOW) in (0, 1), self.process.tail()
        kill_all(self.process)
        for pid in tasks:  # those that stand still do not end by themselves
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def replay_call(archive: Path, topic: str, broker: KafkaBroker, target: str, *, master: str) -> list[str]:
    call = command("replay", archive, "--from", topic, "--kafka", broker.bootstrap, "--topic", target)
    return [*call, *map(str, spark_options()), "--master", master]


@pytest.mark.soak
def test_whoever_is_killed_each_event_is_written_once(
    spark: SparkSession, kafka_broker: KafkaBroker, archived: tuple[str, Path]
) -> None:
    """After the deaths, a last run has its tasks killed within a transaction: Spark runs them again, to the end."""
    topic, archive = archived
    target = kafka_broker.create_topic(partitions=PARTITIONS)
    call = replay_call(archive, topic, kafka_broker, target, master="local[2,4]")
    ends = Watermarks(kafka_broker, target, PARTITIONS)
    for phase, who in PHASES * KILLS:
        run = Replaying(call, ends)
        run.reach(phase)
        run.kill(who)
        print(f"replay: {who} killed, {phase}; {ends.total()} places in the topic are taken")
    last = Replaying(call, ends)
    last.reach("in a transaction")
    last.kill("tasks")
    assert last.process.wait(SLOW) == 0, last.process.tail()
    settled(kafka_broker, target)
    ends.close()
    found, wanted = consumed(kafka_broker, target), consumed(kafka_broker, topic)
    taken_back = len(consumed(kafka_broker, target, committed=False)) - len(found)
    print(f"replay: {len(found)} events in the end, {len(wanted)} archived, {taken_back} taken back")
    assert list(map(unplaced, found)) == list(map(unplaced, wanted))


def unplaced(record: Record) -> Record:
    """A record without its offset: transactions take offsets, too."""
    return record._replace(offset=0)
