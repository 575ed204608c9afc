"""Workers send the report of each test, and of set-ups and tear-downs those that took long or failed."""

from __future__ import annotations

import pytest

from tests.support.project.parts import ROOT

INI = "[pytest]\naddopts = -p tests.support.plugins.reports -n 1 -p no:cacheprovider\n"
SHOWN = """
import pytest

@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    report = yield
    report.duration = 0.12 if (call.when, item.name) == ("setup", "test_slow") else 0.01  # whatever else runs here
    return report

def pytest_runtest_logreport(report):
    print("reported", report.when, report.outcome, report.nodeid.rpartition("::")[2])
"""
TESTS = """
import pytest

@pytest.fixture
def wrong():
    yield
    assert not "put right"

def test_short(): ...
def test_slow(): ...
def test_wrong(wrong): ...
@pytest.mark.skip
def test_skipped(): ...
"""


def test_what_workers_report(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini(INI)
    pytester.makepyfile(conftest=SHOWN, test_it=TESTS)
    result = pytester.runpytest_subprocess("-s")
    result.assert_outcomes(passed=3, errors=1, skipped=1)
    reported = [line.partition("reported ")[2] for line in result.outlines if "reported " in line]
    assert sorted(reported) == [
        "call passed test_short",
        "call passed test_slow",
        "call passed test_wrong",
        "setup passed test_slow",
        "setup skipped test_skipped",
        "teardown failed test_wrong",
    ]
