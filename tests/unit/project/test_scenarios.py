"""docs/scenarios.md names tests that exist, and has a row for each scenario of the three specifications and each KM."""

from __future__ import annotations

import re

from tests.support.project.matrix import MATRIX
from tests.support.project.named_tests import missing_tests, named_tests
from tests.support.project.parts import ROOT

PAGE = (ROOT / "docs/scenarios.md").read_text()


def test_every_scenario_has_its_row() -> None:
    wanted = set(re.findall(r"\*\*((?:AT|ES|RA)-E2E-\d+)\b", MATRIX.read_text()))
    assert len(wanted) == 27
    assert set(re.findall(r"^\| ((?:AT|ES|RA)-E2E-\d+)\b", PAGE, re.MULTILINE)) == wanted


def test_every_decision_on_kafka_has_its_row() -> None:
    assert re.findall(r"^\| (KM-\d+) ", PAGE, re.MULTILINE) == [f"KM-{number}" for number in range(1, 23)]


def test_every_test_named_exists() -> None:
    assert len(named_tests(PAGE)) > 40
    assert list(missing_tests(PAGE)) == []
