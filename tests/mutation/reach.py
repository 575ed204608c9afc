"""pytest plugin of the run that finds out which tests reach which functions (`-p tests.mutation.reach`).

It leaves out tests that need a JVM and writes what each file of tests took, and which of them failed.
"""

from __future__ import annotations

import json
import os
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import settings

from tests.mutation.tracing import BY, FOLDER

SLOW = {"kafka_broker", "own_kafka", "artemis", "spark", "redis_server", "own_redis", "remotes", "brokers", "broker"}
"""Fixtures whose servers start in a JVM or take long."""
FEW = 10
"""Of the examples of a property, these many in a hundred show what it reaches."""
TOOK, FAILED = Counter[str](), set[str]()


def pytest_configure() -> None:
    """Draw few examples."""
    settings.register_profile("few", parent=settings.get_profile("fast"), max_examples=FEW)
    settings.load_profile("few")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests of slow servers."""
    slow = [item for item in items if SLOW & set(getattr(item, "fixturenames", ())) or "[process" in item.nodeid]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in set(slow)]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logstart(nodeid: str) -> None:
    """Tell this process and those it starts whose file of tests runs."""
    name = nodeid.partition("::")[0]
    tracer = getattr(sys.modules.get("sitecustomize"), "active", None)
    if tracer is None:
        return
    if os.environ.get(BY) != name:
        os.environ[BY] = name
        tracer.begin()
    tracer.install()  # a test, or what it uses, may have taken the trace function away


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the time of each file."""
    name = report.nodeid.partition("::")[0]
    TOOK[name] += report.duration * (100 // FEW if name.startswith("tests/property/") else 1)
    if report.failed:
        FAILED.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write times and failures."""
    if not hasattr(session.config, "workerinput"):
        found = {"took": TOOK, "failed": sorted(FAILED)}
        Path(os.environ[FOLDER], "tests.json").write_text(json.dumps(found))
