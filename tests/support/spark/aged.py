"""Archives of great age, made without the job: manifests one by one, or in checkpoints."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.manifest import disk
from bridges.spark.archive.manifest.checkpoint import Checkpoint
from bridges.spark.archive.manifest.commits import Commit, File, to_json
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.store import MANIFEST
from tests.support.gateway.process import fork

PER_DAY = 2880
"""Commits, at one in 30 seconds."""
ROWS = 10
"""Of each partition in each commit."""
KILLS = [pytest.param(range(1, 1000, 5), id="some"), pytest.param(range(1000), id="each", marks=pytest.mark.soak)]
"""Before which changes to folders work is killed: before every fifth, which leaves each state; `make soak`: all."""
CHANGES = frozenset({"os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink"})


def commit(number: int, partitions: int = 2) -> Commit:
    """One of those that follow each other: a file, and some rows of each partition."""
    start = (number - 1) * ROWS
    ranges = [Range("orders", each, start, start + ROWS, ROWS, "id") for each in range(partitions)]
    day = (number - 1) // PER_DAY
    path = f"address=orders/date=2026-{day // 28 + 1:02}-{day % 28 + 1:02}/{number:08}-0000.parquet"
    return Commit(number, f"{number:08}-staged", tuple(ranges), (File(path, 1000, "ab" * 32),), time=number * 30_000)


def old(path: Path, numbers: range) -> None:
    """An archive with a manifest for each commit."""
    folder = path / MANIFEST
    folder.mkdir(parents=True, exist_ok=True)
    for number in numbers:
        disk.manifest_path(folder, number).write_text(to_json(commit(number)))


def checkpointed(path: Path, count: int, per_segment: int = 500) -> None:
    """An archive of `count` commits, all of them in segments."""
    folder = path / MANIFEST
    folder.mkdir(parents=True, exist_ok=True)
    checkpoint = Checkpoint()
    for number in range(per_segment, count + 1, per_segment):
        history = History(folder, checkpoint, [commit(each) for each in range(number - per_segment + 1, number + 1)])
        history.write_checkpoint()
        checkpoint = history.checkpoint
    History.read(folder).tidy()


def killed(at: int, work: Callable[[], object]) -> bool:
    """Do it in a child that is killed before the change of a folder with this number; whether it came that far."""
    child = fork()
    if child == 0:
        left = at

        def count(event: str, arguments: object) -> None:
            nonlocal left
            if event in CHANGES:
                left -= 1
                if left < 0:
                    os._exit(9)

        sys.addaudithook(count)
        try:
            work()
        finally:
            os._exit(0 if sys.exc_info()[0] is None else 1)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    assert code in (0, 9), f"the child failed with {code}"
    return code == 9


def deaths(work: Callable[[], object], renew: Callable[[], object], changes: Iterable[int]) -> Iterator[int]:
    """Kill the work before these of its changes to folders, each time from the start, until it ends before one."""
    for at in changes:
        renew()
        if not killed(at, work):
            return
        yield at
