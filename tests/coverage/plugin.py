"""pytest plugin: at the end of a run with `SCOPEGATE_COVERAGE` set, print how much of the product it has reached.

A run of the whole suite that is below the floor fails. Of a part of it the figures are only printed.
"""

from __future__ import annotations

import pytest

from tests.coverage import figures, measuring

FIGURES = pytest.StashKey[list[str]]()


def is_whole(config: pytest.Config) -> bool:
    """Tell whether nothing narrows the run: no file, no keyword, no marker, no rows alone."""
    narrowed = config.option.keyword or config.option.markexpr or config.option.conformance
    return config.args_source is pytest.Config.ArgsSource.TESTPATHS and not narrowed


def pytest_collection_finish() -> None:
    """Let tests send functions of the product to Spark's workers."""
    if measuring.active is not None:
        measuring.active.probes.pickle_without()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write down what this process reached; in the process that prints, read what all wrote, and judge it."""
    if measuring.active is None:
        return
    measuring.active.write()
    if hasattr(session.config, "workerinput"):
        return
    folder = measuring.active.folder
    python, c = figures.python(folder), figures.c(folder)
    totals = [figures.total("python", python), figures.total("c", c)]
    lines = figures.table(totals, python + c)
    if is_whole(session.config) and (faults := figures.below(totals, figures.floor())):
        lines += faults
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED
    session.config.stash[FIGURES] = lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print the figures."""
    if lines := config.stash.get(FIGURES, None):
        terminalreporter.section("coverage")
        for line in lines:
            terminalreporter.write_line(line)

