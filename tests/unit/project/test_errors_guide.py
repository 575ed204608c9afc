"""docs/guide/errors.md: every condition that the code can send is there, and every description is one of the code."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from tests.support.project.parts import ROOT
from tests.support.project.texts import texts as texts_of

GUIDE = (ROOT / "docs/guide/errors.md").read_text()
ROWS = re.findall(r"^\| `((?:amqp|com\.microsoft):[^`]+)` \| (.*?) \| (.*?) \| (.*?) \|$", GUIDE, re.MULTILINE)
CONDITION = re.compile(r"amqp:(?:(?:connection|session|link|transaction):)?[a-z-]*[a-z]")
NO_CONDITIONS = re.compile(r".*(?:-filter|sastoken|local-transactions|multi-\w+-per-\w+)")
ALIASES = {"amqp:session:invalid-field"}
"""What proton calls a condition of ours; it is replaced before it is sent."""


@cache  # and not when the module is imported: any run imports it
def texts() -> set[str]:
    """The texts of the product, docstrings and the constant pieces of formatted texts included."""
    paths = (path for folder in ("gateway", "bridges") for path in (ROOT / folder).rglob("*.py"))
    return {text for path in paths for text in texts_of(path)}


def test_every_condition_of_the_code_is_in_the_guide_and_no_other() -> None:
    conditions = {text for text in texts() if CONDITION.fullmatch(text) and not NO_CONDITIONS.fullmatch(text)}
    assert len(conditions) > 25
    core = {condition for condition, *_ in ROWS if condition.startswith("amqp:")}
    assert core == conditions - ALIASES
    foreign = {condition for condition, *_ in ROWS} - core
    assert foreign <= texts()


@pytest.mark.parametrize("description", sorted({text.strip("` ") for _, text, *_ in ROWS if text != "(several)"}))
def test_every_description_of_the_guide_is_one_of_the_code(description: str) -> None:
    parts = [part for part in description.split("…") if part]
    assert [part for part in parts if not any(part in text for text in texts())] == []
    assert parts


def test_each_table_says_a_cause() -> None:
    assert len(ROWS) > 60
    assert [condition for condition, _, cause, _ in ROWS if not cause.strip()] == []
    tables = [line for line in GUIDE.splitlines() if line.startswith("| `")]
    assert len(tables) == len(ROWS), "a row with another number of columns"


@pytest.mark.parametrize("name", ["authentication failed", "TLS handshake failed"])
def test_the_log_lines_of_the_guide_exist(name: str) -> None:
    assert f"`{name}`" in GUIDE
    assert name in texts()


def test_policy_keys_of_the_guide_exist() -> None:
    """A key is named without its section, so that the schema can be searched for it."""
    schema = Path(ROOT / "policies/schema.json").read_text()
    named = set(re.findall(r"`([a-z_]+(?:\.[a-z_]+)*)(?:: [a-z]+)?`", " ".join(cause + way for *_, cause, way in ROWS)))
    keys = {name.rpartition(".")[2] for name in named} - {"dynamic", "released", "modified", "to"}
    assert len(keys) > 15
    assert sorted(key for key in keys if f'"{key}"' not in schema) == []
