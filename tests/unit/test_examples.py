"""The hypothesis profile decides how many examples are drawn: no test pins a number (found as E)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests.support.parts import ROOT


@pytest.mark.parametrize(("profile", "count"), [("fast", 150), ("deep", 15_000)])
def test_counts_are_in_proportion_to_the_profile(profile: str, count: int) -> None:
    code = "import tests.conftest; from tests.support.examples import examples; print(examples(150))"
    env = {**os.environ, "SCOPEGATE_HYPOTHESIS": profile}
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    assert int(done.stdout) == count


def test_no_property_pins_its_count() -> None:
    pinned = [
        f"{path.relative_to(ROOT)}:{node.value.lineno}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "max_examples" and isinstance(node.value, ast.Constant)
    ]
    assert pinned == []
