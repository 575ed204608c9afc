"""The conformance report says what the tests showed, and only a whole run writes it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.project.matrix import read_rows
from tests.support.project.parts import ROOT

TESTS = """
import pytest

@pytest.mark.row("ES-1-1", "ES-1-2")
def test_good(): pass

@pytest.mark.row("ES-1-2")
@pytest.mark.parametrize("good", [True, False])
def test_one_of_two(good): assert good

@pytest.mark.row("ES-1-3")
def test_broken_afterwards(broken): pass

@pytest.fixture
def broken():
    yield
    raise RuntimeError

@pytest.mark.row("ES-1-4")
def test_left_out(): pytest.skip("not here")

@pytest.mark.row("ES-1-5", part="the first half")
@pytest.mark.row("ES-1-6", part="the first half")
def test_half(): pass

@pytest.mark.row("ES-1-6", "ES-1-8")
def test_whole(): pass

def test_without_row(): pass
"""
INI = """
[pytest]
testpaths = .
addopts = -p tests.support.plugins.conformance
markers = row: rows
asyncio_default_fixture_loop_scope = function
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A small project whose tests carry rows."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini(INI)
    pytester.makepyfile(TESTS)
    return pytester


def report(suite: pytest.Pytester) -> dict[str, Any]:
    return dict(json.loads((suite.path / "build" / "conformance.json").read_text()))


@pytest.mark.parametrize("workers", [(), ("--numprocesses", "2")], ids=["alone", "workers"])
def test_a_row_passes_only_when_each_of_its_tests_does(suite: pytest.Pytester, workers: tuple[str, ...]) -> None:
    run = suite.runpytest_subprocess if workers else suite.runpytest_inprocess
    run(*workers).assert_outcomes(passed=6, failed=1, errors=1, skipped=1)
    statuses = report(suite)
    assert statuses["ES-1-1"] == "passed"
    assert statuses["ES-1-2"] == "failed"
    assert statuses["ES-1-3"] == "failed", "an error after the test is an error of the row"
    assert statuses["ES-1-4"] == "not shown"
    assert statuses["ES-1-5"] == "partly"
    assert statuses["ES-1-6"] == "passed", "some test shows all of it"
    assert statuses["ES-1-7"] == "not shown"
    assert statuses["ES-1-8"] == "definitional", "a mark does not make a row pass that has no check"
    assert statuses.keys() == read_rows().keys()


def test_the_option_runs_only_rows_and_prints_each(suite: pytest.Pytester) -> None:
    result = suite.runpytest_inprocess("--conformance")
    result.assert_outcomes(passed=5, failed=1, errors=1, skipped=1, deselected=1)
    rows = read_rows()
    events = sum(row.family == "ES" for row in rows.values())
    lines = ["ES-1-1 *passed*inf*1 *", f"ES *2* 1* 2* 4* {events - 9}* {events}", f"all *{len(rows)}"]
    result.stdout.fnmatch_lines(lines)


def test_a_row_the_matrix_does_not_have_stops_the_run(suite: pytest.Pytester) -> None:
    suite.makepyfile(test_typo="import pytest\n@pytest.mark.row('ES-99-1')\ndef test_it(): pass\n")
    result = suite.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_typo.py::test_it: ES-99-1*"])


def test_a_part_of_the_suite_does_not_overwrite_the_report(suite: pytest.Pytester) -> None:
    suite.runpytest_inprocess("-k", "good")
    assert not (suite.path / "build").exists()


def test_a_run_that_was_cut_short_does_not_overwrite_the_report(suite: pytest.Pytester) -> None:
    suite.runpytest_inprocess("--exitfirst")
    assert not (suite.path / "build").exists()
