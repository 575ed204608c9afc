"""The three call traces of docs/design.md are the functions that messages really pass."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tests.support.gateway.process import UNMEASURED
from tests.support.project.parts import ROOT

DESIGN = (ROOT / "docs" / "design.md").read_text()
WALKS = ("request and response", "event in", "event out")
BEFORE = {"request and response": 90, "event in": 46, "event out": 82}
"""Functions on each way before the packages were laid out anew: no walk gets longer than that."""
CHANCE = 4
"""Functions that a message passes or not, as credit and turns of the loop fall."""


def functions(text: str, walk: str) -> set[str]:
    """The functions of a walk in the form that `tests.support.project.walks` prints."""
    found = re.search(rf"^{walk}: \d+\n((?:  .+\n)+)", text, re.MULTILINE)
    assert found is not None, walk
    lines = re.sub(r"\n    +", " ", found[1]).splitlines()
    return {f"{module.strip()}.{name.strip()}" for module, _, names in (line.partition(":") for line in lines)
            for name in names.split(",")}  # fmt: skip


def run_walks() -> str:
    command = [sys.executable, "-m", "tests.support.project.walks", "--ever"]
    env = {**os.environ, **UNMEASURED}
    for _ in range(3):  # its ports may be taken by somebody else meanwhile
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode == 0:
            return done.stdout
    raise AssertionError(done.stderr[-3000:])


class Walked:
    """What messages passed in each run; another run is made when chance may have made a walk longer."""

    def __init__(self) -> None:
        self.runs: list[str] = []

    def run(self) -> None:
        """Walk once more."""
        self.runs.append(run_walks())

    def always(self, walk: str) -> set[str]:
        """The functions that every message passed in every run."""
        return set.intersection(*self._told("always", walk))

    def ever(self, walk: str) -> set[str]:
        """Those that one passed in some run."""
        return set.union(*self._told("ever", walk))

    def _told(self, how: str, walk: str) -> list[set[str]]:
        return [set(re.findall(rf"^{how} {walk}: (.+)$", run, re.MULTILINE)) for run in self.runs]


@pytest.fixture(scope="module")
def walked() -> Walked:
    walked = Walked()
    walked.run()
    return walked


@pytest.mark.parametrize("walk", WALKS)
def test_a_message_passes_the_functions_that_the_design_lists(walked: Walked, walk: str) -> None:
    listed = functions(DESIGN, walk)
    while len(walked.runs) < 5 and (len(walked.always(walk) - listed) > CHANCE or listed - walked.ever(walk)):
        walked.run()  # a machine that does much else puts off what a message usually does not meet
    assert len(listed) <= BEFORE[walk]
    assert sorted(listed - walked.ever(walk)) == [], "no longer passed"
    assert len(walked.always(walk) - listed) <= CHANCE, f"not in docs/design.md: {sorted(walked.always(walk) - listed)}"
