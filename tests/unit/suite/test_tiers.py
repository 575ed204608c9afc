"""Each test is in one tier; soak tests run when asked for, and take no conformance row with them."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.support.plugins.tiers import FOLDERS
from tests.support.project.parts import ROOT

INI = """
[pytest]
testpaths = tests
addopts = -p tests.support.plugins.tiers --strict-markers
markers =
    row: rows
    soak: long
asyncio_default_fixture_loop_scope = function
"""
TESTS = """
import pytest

@pytest.mark.row("ES-1-1")
def test_plain(): pass

@pytest.mark.soak
@pytest.mark.row("ES-1-1")
def test_long(): pass
"""
SOLE = TESTS.replace('@pytest.mark.soak\n@pytest.mark.row("ES-1-1")', '@pytest.mark.soak\n@pytest.mark.row("ES-1-2")')
SERVED = """
import pytest

@pytest.fixture
def kafka_broker(): pass

def test_served(kafka_broker): pass
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A small project with a test of each tier."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini(INI)
    for folder in ("unit", "integration"):
        write(pytester, f"tests/{folder}/test_{folder}.py", TESTS)
    return pytester


def write(suite: pytest.Pytester, name: str, text: str) -> None:
    path = suite.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_whole_run_and_a_run_of_a_folder_leave_soak_tests_out(suite: pytest.Pytester) -> None:
    suite.runpytest_inprocess().assert_outcomes(passed=2, deselected=2)
    suite.runpytest_inprocess("tests/unit").assert_outcomes(passed=1, deselected=1)


def test_workers_leave_them_out_as_well(suite: pytest.Pytester) -> None:
    suite.runpytest_subprocess("--numprocesses", "1").assert_outcomes(passed=2)


@pytest.mark.parametrize("asked", [("-m", "soak"), ("tests/unit/test_unit.py::test_long",)], ids=["mark", "name"])
def test_soak_tests_run_when_they_are_asked_for(suite: pytest.Pytester, asked: tuple[str, ...]) -> None:
    outcomes = suite.runpytest_inprocess(*asked, "-v").parseoutcomes()
    assert outcomes["passed"] == (2 if asked[0] == "-m" else 1)


def test_naming_a_file_runs_all_of_it(suite: pytest.Pytester) -> None:
    suite.runpytest_inprocess("tests/unit/test_unit.py").assert_outcomes(passed=2)


@pytest.mark.parametrize(("tier", "passed"), [("check", 1), ("test", 2), ("soak", 2)])
def test_a_tier_runs_alone_and_a_server_takes_a_test_out_of_check(
    suite: pytest.Pytester, tier: str, passed: int
) -> None:
    write(suite, "tests/property/test_servers.py", SERVED)
    suite.runpytest_inprocess("--tier", tier).assert_outcomes(passed=passed, deselected=5 - passed)


def test_a_folder_without_a_tier_stops_the_run(suite: pytest.Pytester) -> None:
    write(suite, "tests/elsewhere/test_elsewhere.py", TESTS)
    result = suite.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*tests/elsewhere belongs to no tier*")


def test_a_row_that_soak_tests_alone_show_stops_a_whole_run(suite: pytest.Pytester) -> None:
    write(suite, "tests/unit/test_unit.py", SOLE)
    result = suite.runpytest_inprocess()
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines("*rows that soak tests alone show: ES-1-2")
    suite.runpytest_inprocess("tests/unit").assert_outcomes(passed=1, deselected=1)


def test_no_test_of_check_takes_a_part_but_by_its_fixture() -> None:
    """On a new clone `make check` failed in twenty tests, for what only `make parts` fetches."""
    taking = re.compile(r"\b(program|folder)\(\"")
    checked = [ROOT / "tests" / folder for folder, tier in FOLDERS.items() if tier == "check"]
    files = {path.name: path.read_text() for folder in checked for path in folder.rglob("*.py")}
    assert [name for name, text in files.items() if taking.search(text) and name != Path(__file__).name] == []


def test_every_file_of_tests_is_in_a_folder_with_a_tier() -> None:
    tests = (ROOT / "tests").rglob("test_*.py")
    assert {path.relative_to(ROOT / "tests").parts[0] for path in tests} == FOLDERS.keys()


@pytest.mark.parametrize(("target", "workers"), [("check", 3), ("suite", 5)])
def test_make_starts_as_many_workers_as_the_guide_says(target: str, workers: int) -> None:
    env = {name: value for name, value in os.environ.items() if not name.startswith("MAKE") and name != "WORKERS"}
    command = ["make", "--dry-run", target]
    said = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout
    assert f" --numprocesses {workers} " in said
    guide = (ROOT / "CONTRIBUTING.md").read_text()
    assert ("`make check` has `WORKERS=3`" if target == "check" else "`WORKERS=5` is the number") in guide
