"""pytest plugin: assigns tests to workers of pytest-xdist, and decides their order.

As with `--dist loadfile`, tests of one file go to one worker, which sets up once what they share. So do all files whose
tests use Spark in their own process, those on real servers apart from the others: one Java serves each of the two, for
together they would take as long as all the rest. What takes long comes first, for the end of a run is that of its last
file; unit and protocol tests, which are many and short, fill what is left.
"""

from __future__ import annotations

import gc
import re
from collections.abc import Generator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest
from xdist.scheduler import LoadFileScheduling

SPARK: Final = "spark on servers", "spark"
LONG: Final = (
    "groups/processes",
    "amqp/clients",
    "project/bench_smoke",
    "project/install",
    "spark/archive/cluster",
    "spark/journey",
    "eventhubs/other_clients",
    "kafka/security",
    "server/essential_tasks",
    "kafka/produce/producing",
    "forwarding/bridge",
    "event_streams/clients",
    "groups/shared",
    "subscriptions/restart",
    "event_streams/links",
    "kafka/consume/reading",
    "groups/exclusive",
    "kafka/down",
)
"""Files of integration tests that take longest, apart from those with Spark."""
FOLDERS: Final = ("integration", "property", "unit", "protocol")
_USES_SPARK = re.compile(r"^(?:async )?def \w+\([^)]*\bspark: SparkSession", re.MULTILINE)
T = TypeVar("T")


@cache
def group(root: Path, file: str) -> str:
    """What a file is run with: itself, or others that use Spark; `file` is a path below the project's folder."""
    if not _USES_SPARK.search((root / file).read_text()):
        return file
    return SPARK["integration" not in file]


def rank(name: str) -> tuple[int, int]:
    """The place of a group in the order of a run; equal ones stay in the order in which they were collected."""
    if name in SPARK:
        return 0, SPARK.index(name)
    *folders, file = name.split("/")
    tier = next((each for each in folders if each in FOLDERS), "")
    below = folders[folders.index(tier) + 1 :] if tier else folders
    place = "/".join([*below, file.removeprefix("test_").removesuffix(".py")])
    if tier == "integration" and place in LONG:
        return 1, LONG.index(place)
    return 2, FOLDERS.index(tier) if tier else len(FOLDERS)


def ordered(units: Mapping[str, T]) -> dict[str, T]:
    """Return units of work, long ones first."""
    return dict(sorted(units.items(), key=lambda unit: rank(unit[0])))


class Scheduling(LoadFileScheduling):
    """A file, or all with Spark, at one worker; long ones first."""

    def _split_scope(self, nodeid: str) -> str:
        return group(self.config.rootpath, super()._split_scope(nodeid))

    def _assign_work_unit(self, node: Any) -> None:
        if not any(self.assigned_work.values()):  # the first of all
            units = ordered(self.workqueue)
            self.workqueue.clear()
            self.workqueue.update(units)
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Take ours where files are dealt out."""
    return Scheduling(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without the garbage collector: what is made there stays; looking at it took a sixth of the time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Keep ten thousand collected tests out of the garbage collector's way: each full collection would walk them.

    Collections took a sixth of the processor time of unit and protocol tests, so they come less often, too.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
