"""The list of suspects names tests that there are."""

from __future__ import annotations

import ast

from tests.races.suspects import SUSPECTS
from tests.support.project.parts import ROOT


def test_there_are_thirty_and_each_is_a_test() -> None:
    assert len(set(SUSPECTS)) == len(SUSPECTS) == 30
    for suspect in SUSPECTS:
        file, _, name = suspect.partition("::")
        tests = {
            each.name
            for each in ast.parse((ROOT / file).read_text()).body
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        assert name in tests, suspect
