"""The hypothesis profile decides how many examples are drawn: no test pins a number (found as E)."""

from __future__ import annotations

import ast
import os
import subprocess
import sys

import pytest

from tests.support.project.parts import ROOT

DRAW = """
import importlib, sys, tests.conftest
from hypothesis import given, strategies as st
for name in sys.argv[1:]:
    importlib.import_module(name)

@given(st.text(), st.integers())
def show(text, number):
    print(ascii(text), number)

show()
"""


def python_output(code: str, *arguments: str, profile: str = "fast") -> str:
    """What Python prints in a process of its own."""
    env = {**os.environ, "SCOPEGATE_HYPOTHESIS": profile}
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize(("profile", "counts"), [("fast", "25 100"), ("deep", "2500 15000")])
def test_counts_are_in_proportion_to_the_profile(profile: str, counts: str) -> None:
    code = "import tests.conftest; from tests.support.plugins.examples import examples as e; print(e(25), e(150))"
    assert python_output(code, profile=profile).strip() == counts


def test_draws_do_not_depend_on_which_modules_are_loaded() -> None:
    assert python_output(DRAW) == python_output(
        DRAW, "gateway.config.policy", "gateway.amqp.codec.codec", "policies.load.loader"
    )


def test_no_property_pins_its_count() -> None:
    pinned = [
        f"{path.relative_to(ROOT)}:{node.value.lineno}"
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        if "max_examples" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg == "max_examples" and isinstance(node.value, ast.Constant)
    ]
    assert pinned == []
