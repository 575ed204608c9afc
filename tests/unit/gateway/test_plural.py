"""Numbers with their nouns, and that no command counts one thing as many."""

from __future__ import annotations

import ast
import re

import pytest

from gateway.plural import counted, plural
from tests.support.project.parts import ROOT

OURS = sorted(path for room in ("bridges", "gateway") for path in (ROOT / room).rglob("*.py"))
NOUN = re.compile(
    r"^ (bytes|commits|connections|differences|events|files|gaps|keys|kinds|links|logins|messages|mistakes|offsets|"
    r"partitions|problems|records|rows|topics)\b"
)
SPOKEN = "cli", "archive", "replay", "simulate", "report", "jobs"
"""The rooms whose texts users see."""
ALWAYS_MANY = {("bridges/spark/archive/write/check.py", " bytes"), ("bridges/spark/report/job.py", " rows")}


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 events were"), (1, "1 event was"), (2, "2 events were"), (1000, "1000 events were")]
)
def test_one_is_no_plural(number: int, text: str) -> None:
    assert counted(number, "event was", "events were") == text
    assert (plural(number, "file"), plural(number, "kind of row", "kinds of rows")) == (
        ("file", "kind of row") if number == 1 else ("files", "kinds of rows")
    )


def test_no_text_has_a_noun_in_the_plural_after_a_number() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{node.lineno}: {value.value}"
        for path in OURS
        if set(path.parts) & set(SPOKEN)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.JoinedStr)
        for before, value in zip(node.values, node.values[1:], strict=False)
        if isinstance(before, ast.FormattedValue) and isinstance(value, ast.Constant) and NOUN.match(str(value.value))
        if (str(path.relative_to(ROOT)), NOUN.match(str(value.value))[0]) not in ALWAYS_MANY
    }
    assert sorted(found) == []
