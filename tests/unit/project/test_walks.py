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
CHANCE = 8
"""Functions that a message passes or not, as credit and turns of the loop fall."""


def functions(text: str, walk: str) -> set[str]:
    """The functions of a walk in the form that `tests.support.project.walks` prints."""
    found = re.search(rf"^{walk}: \d+\n((?:  .+\n)+)", text, re.MULTILINE)
    assert found is not None, walk
    lines = re.sub(r"\n    +", " ", found[1]).splitlines()
    return {f"{module.strip()}.{name.strip()}" for module, _, names in (line.partition(":") for line in lines)
            for name in names.split(",")}  # fmt: skip


@pytest.fixture(scope="module")
def walked() -> str:
    command = [sys.executable, "-m", "tests.support.project.walks", "--ever"]
    env = {**os.environ, **UNMEASURED}
    for _ in range(3):  # its ports may be taken by somebody else meanwhile
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, timeout=300, check=False
        )
        if done.returncode == 0:
            return done.stdout
    raise AssertionError(done.stderr[-3000:])


@pytest.mark.parametrize("walk", WALKS)
def test_a_message_passes_the_functions_that_the_design_lists(walked: str, walk: str) -> None:
    listed, shortest = functions(DESIGN, walk), functions(walked, walk)
    ever = {*re.findall(rf"^ever {walk}: (.+)$", walked, re.MULTILINE)}
    assert len(listed) <= BEFORE[walk]
    assert sorted(listed - ever) == [], "no longer passed"
    assert len(shortest - listed) <= CHANCE, f"not in docs/design.md: {sorted(shortest - listed)}"
