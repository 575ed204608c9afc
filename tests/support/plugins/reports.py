"""pytest plugin: workers of pytest-xdist send reports of set-ups and tear-downs only where there is something to tell.

Each report is written, sent and read again, and there would be three for each of many thousand short tests. Nor do
workers say that a test begins and ends, which only a run without workers shows, or print what nobody reads.
"""

from __future__ import annotations

from typing import Final

import pytest
from _pytest.runner import runtestprotocol

LONG: Final = 0.1
"""Seconds from which on a set-up may be among the slowest of a run."""
UNREAD: Final = ("terminalreporter", "conformance-rows")
"""What of a worker's own prints or counts reports: the run's does."""


def tells(report: pytest.TestReport) -> bool:
    """Tell whether a report says more than that nothing was wrong beside the test."""
    return report.when == "call" or not report.passed or report.duration >= LONG


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """In a worker, do what pytest does, and leave out reports."""
    if not hasattr(item.config, "workerinput"):
        return None
    plugins = item.config.pluginmanager
    send = plugins.subset_hook_caller("pytest_runtest_logreport", [plugins.getplugin(name) for name in UNREAD])
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if tells(report):
            send(report=report)
    return True
