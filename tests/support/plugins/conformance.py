"""pytest plugin: the conformance rows that tests show (`@pytest.mark.row(ids)`), and the report of it.

A row is `definitional` when the matrix gives it no check, whatever carries it; `failed` when a test that carries it
failed; `passed` when all of them passed; `partly` when each shows a part of it only (`row(id, part="which")`); else
`not shown`. A whole run writes build/conformance.json; with
`--conformance` only tests that carry rows run, and every row is printed.

Rows travel in the reports of the tests, so the workers of pytest-xdist need nothing more to be counted.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.support.project.matrix import FAMILIES, read_rows

STATUSES = ("passed", "partly", "failed", "definitional", "not shown")
RANK = {"passed": 0, "skipped": 1, "failed": 2}


class Conformance:
    """Collects the result of each test and the rows it carries."""

    def __init__(self, config: pytest.Config) -> None:
        self.rows = read_rows()
        self.config = config
        self.tests: dict[str, set[str]] = defaultdict(set)
        self.parts: dict[str, set[str]] = defaultdict(set)
        self.results: dict[str, str] = {}
        self.collected: set[str] = set()
        self.only_rows: bool = config.getoption("conformance")

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Note which test carries which rows; a row that the matrix does not have stops the run."""
        unknown = []
        for item in items:
            marks = list(item.iter_markers("row"))
            whole = {id for mark in marks for id in mark.args if "part" not in mark.kwargs}
            partly = {id for mark in marks for id in mark.args} - whole
            unknown += [f"{item.nodeid}: {id}" for id in sorted((whole | partly) - self.rows.keys())]
            item.user_properties += [("row", id) for id in sorted(whole)]
            item.user_properties += [("part of row", id) for id in sorted(partly)]
        if unknown:
            raise pytest.UsageError("rows that docs/conformance.md does not have: " + "; ".join(unknown))
        if self.only_rows:
            self.keep_only_rows(items)

    def keep_only_rows(self, items: list[pytest.Item]) -> None:
        """Deselect every test that carries no row."""
        carrying = [item for item in items if item.get_closest_marker("row")]
        self.config.hook.pytest_deselected(items=[item for item in items if item not in carrying])
        items[:] = carrying

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        """Note what is going to run."""
        self.collected.update(item.nodeid for item in session.items)

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: list[str]) -> None:
        """Note what a worker says is going to run."""
        self.collected.update(ids)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the worst result of set-up, call and tear-down; passing counts only for the call."""
        for name, value in report.user_properties:
            if name in ("row", "part of row"):
                self.tests[str(value)].add(report.nodeid)
            if name == "part of row":
                self.parts[str(value)].add(report.nodeid)
        if report.when == "call" or not report.passed:
            before = self.results.get(report.nodeid, "passed")
            self.results[report.nodeid] = max(before, report.outcome, key=RANK.__getitem__)

    def status(self, id: str) -> str:
        """Return the row's word for the report."""
        outcomes = {self.results[test] for test in self.tests[id]}
        if self.rows[id].definitional:
            return "definitional"
        if "failed" in outcomes:
            return "failed"
        if outcomes != {"passed"}:
            return "not shown"
        return "partly" if self.tests[id] == self.parts[id] else "passed"

    def whole(self) -> bool:
        """Tell whether this run had the whole suite before it, so that the report says something."""
        option = self.config.option
        picked = option.keyword or option.markexpr or option.collectonly or getattr(option, "tier", None)
        ended = self.collected <= self.results.keys()
        if picked or hasattr(self.config, "workerinput"):
            return False
        return self.config.args_source is pytest.Config.ArgsSource.TESTPATHS and ended

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Write build/conformance.json and print the counts, and each row where asked."""
        if not self.whole():
            return
        statuses = {id: self.status(id) for id in self.rows}
        write(self.config.rootpath / "build" / "conformance.json", statuses)
        terminalreporter.section("conformance")
        lines = self.row_lines(statuses) if self.only_rows else []
        for line in [*lines, *self.count_lines(statuses)]:
            terminalreporter.write_line(line)

    def row_lines(self, statuses: dict[str, str]) -> list[str]:
        """Return a line for each row: id, status, level, how many tests carry it."""
        return [
            f"{id:14} {status:13} {self.rows[id].level:7} {len(self.tests[id]) or '':>3}  "
            + self.rows[id].requirement[:70]
            for id, status in statuses.items()
        ]

    def count_lines(self, statuses: dict[str, str]) -> list[str]:
        """Return the table of counts by specification."""
        counts = Counter((self.rows[id].family, status) for id, status in statuses.items())
        table = {family: [counts[family, status] for status in STATUSES] for family in FAMILIES}
        table["all"] = [sum(column) for column in zip(*table.values(), strict=True)]
        head = f"{'':8}" + "".join(f"{status:>14}" for status in STATUSES) + f"{'total':>8}"
        body = [
            f"{name:8}" + "".join(f"{n:14}" for n in row) + f"{sum(row):8}" for name, row in table.items()
        ]
        return [head, *body]


def write(path: Path, statuses: dict[str, str]) -> None:
    """Write the report's machine form: row id to status."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(statuses, indent=1) + "\n")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make conformance`."""
    parser.addoption("--conformance", action="store_true", help="run tests that carry rows; print every row")


def pytest_configure(config: pytest.Config) -> None:
    """Put the collector to work for this run."""
    config.pluginmanager.register(Conformance(config), "conformance-rows")
