"""The journal's columns in Spark are the fields that docs/journal.md describes."""

from __future__ import annotations

import re

from bridges.spark.simulate.job import SCHEMA
from tests.support.project.parts import ROOT


def test_every_documented_field_is_a_column_and_the_other_way() -> None:
    """The rows of the table in section Records."""
    text = (ROOT / "docs/journal.md").read_text()
    table = text[text.index("| field | in | meaning |") : text.index("A **link** row")]
    named = {name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split(" | ")[0])}
    flat = re.sub(r"<.*?>+", "", SCHEMA)
    assert {column.split()[0].strip("`") for column in flat.split(", ")} == named
