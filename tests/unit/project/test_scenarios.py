"""docs/scenarios.md names tests that exist, and has a row for each scenario of the three specifications and each KM."""

from __future__ import annotations

import re

from tests.support.project.matrix import MATRIX
from tests.support.project.parts import ROOT

PAGE = (ROOT / "docs/scenarios.md").read_text()
TESTS = ROOT / "tests"


def test_every_scenario_has_its_row() -> None:
    wanted = set(re.findall(r"\*\*((?:AT|ES|RA)-E2E-\d+)\b", MATRIX.read_text()))
    assert len(wanted) == 27
    assert set(re.findall(r"^\| ((?:AT|ES|RA)-E2E-\d+)\b", PAGE, re.MULTILINE)) == wanted


def test_every_decision_on_kafka_has_its_row() -> None:
    assert re.findall(r"^\| (KM-\d+) ", PAGE, re.MULTILINE) == [f"KM-{number}" for number in range(1, 23)]


def test_every_test_named_exists() -> None:
    named = re.findall(r"`((?:\w+/)+test_\w+\.py)(?:::(test_\w+))?`", PAGE)
    assert len(named) > 40
    for file, test in named:
        tier = file.partition("/")[0]
        text = (TESTS / (file if tier in ("unit", "property", "protocol") else f"integration/{file}")).read_text()
        assert not test or re.search(rf"^(?:async )?def {test}\(", text, re.MULTILINE), f"{file}::{test}"
