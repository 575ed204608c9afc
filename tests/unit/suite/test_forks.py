"""One worker collects, the others are forked from it: what is theirs alone, and what becomes of a fork that dies."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from tests.support.gateway.process import fork
from tests.support.plugins.worker import hand_on
from tests.support.project.parts import ROOT

INI = "[pytest]\naddopts = -p tests.support.plugins.forks -n 3 -p no:cacheprovider --dist loadfile -v\n"
TESTS = """
import atexit, os, random, time
from pathlib import Path

FOLDER = Path({folder!r})
with (FOLDER / "imported").open("a") as file:
    file.write(f"{{os.getpid()}}\\n")

def meet(place, name):
    place.mkdir(exist_ok=True)
    (place / name).touch()
    end = time.monotonic() + 30
    while len([*place.iterdir()]) < 3 and time.monotonic() < end:
        time.sleep(0.01)

def test_own(tmp_path, pytestconfig):
    name = os.environ["PYTEST_XDIST_WORKER"]
    atexit.register((FOLDER / f"ended-{{name}}").touch)
    meet(FOLDER / "began", f"{{name}}-{{os.getpid()}}-{{random.random()}}")
    assert pytestconfig.workerinput["workerid"] == name
    assert tmp_path.parent.name == f"popen-{{name}}"

def test_output():
    name = os.environ["PYTEST_XDIST_WORKER"]
    print("printed by", name)
    meet(FOLDER / "printed", name)
    assert not name
"""
LEAVING = """
import atexit, os

class Left:
    def __del__(self, write=os.write):
        write(2, b"said of what is left\\n")

left = Left()

def test_end():
    name = os.environ["PYTEST_XDIST_WORKER"]
    atexit.register(os.write, 2, f"said by {name} at its end\\n".encode())
"""
DYING = """
import os

def test_one(): ...
def test_dies():
    if os.environ["PYTEST_XDIST_WORKER"] == "gw1":
        os._exit(3)
"""


def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, text: str) -> pytest.RunResult:
    """Run three files of the same tests in three workers."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini(INI)
    pytester.makepyfile(**{f"test_{name}": text for name in "abc"})
    return pytester.runpytest_subprocess()


def test_each_worker_has_its_own_name_folder_output_and_end(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    result = run(pytester, monkeypatch, TESTS.format(folder=str(tmp_path)))
    result.assert_outcomes(passed=3, failed=3)
    assert len({*(tmp_path / "imported").read_text().split()}) == 1, "one of them collects"
    names, processes, drawn = zip(*(each.name.split("-", 2) for each in (tmp_path / "began").iterdir()), strict=True)
    assert {*names} == {"gw0", "gw1", "gw2"}
    assert len({*processes}) == len({*drawn}) == 3
    assert {each.name for each in tmp_path.glob("ended-*")} == {f"ended-{name}" for name in names}
    printed = [line for line in result.outlines if line.startswith("printed by")]
    assert sorted(printed) == [f"printed by {name}" for name in sorted(names)]


def test_workers_say_nothing_of_what_is_left_at_their_end(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library printed fifty lines about leaked objects below the result of a run."""
    result = run(pytester, monkeypatch, LEAVING)
    result.assert_outcomes(passed=3)
    said = [line for line in result.errlines if line.startswith("said ")]
    assert sorted(said) == [f"said by gw{number} at its end" for number in range(3)]


def test_a_fork_that_dies_is_told_and_replaced(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    result = run(pytester, monkeypatch, DYING)
    result.assert_outcomes(passed=6, failed=1)  # another worker runs it again
    result.stdout.fnmatch_lines(["*worker 'gw1' crashed while running*test_dies*"])


def test_a_worker_whose_fork_never_comes_is_told_so() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    assert not hand_on(None, ours)


class Left:
    """Garbage of an earlier test: only the collector frees it, and this process must not."""

    def __init__(self) -> None:
        self.own, self.process = self, os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.process:
            os._exit(3)


def test_a_child_collects_no_garbage_of_its_parent() -> None:
    """A client of Kafka that was left in a cycle held up such a child, and one child crashed."""
    Left()
    if not (child := fork()):
        kept = [[number] for number in range(100_000)]
        os._exit(len(kept) - 100_000)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
