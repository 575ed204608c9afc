"""The test cases of CESQL 1.0.0, as its authors publish them (CE-3.2.3-7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.errors import AmqpError
from gateway.filters.cesql import compile_cesql, parse_cesql
from gateway.filters.cesql.values import Failed

CASES = {
    "binary_comparison_operators": 32,
    "binary_logical_operators": 16,
    "binary_math_operators": 18,
    "case_sensitivity": 7,
    "casting_functions": 21,
    "context_attributes_access": 8,
    "exists_expression": 7,
    "in_expression": 16,
    "integer_builtin_functions": 4,
    "like_expression": 37,
    "literals": 10,
    "negate_operator": 6,
    "not_operator": 6,
    "parse_errors": 1,
    "spec_examples": 13,
    "string_builtin_functions": 42,
    "sub_expression": 3,
    "subscriptions_api_recreations": 28,
}
"""How many cases each file has: 275 in all."""
EVENT = {"specversion": "1.0", "id": "1", "source": "/any", "type": "any"}
WHEN_PARSED = ("parse", "missingFunction")
"""Errors that refuse the expression: it has no result then."""


def cases(file: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Each case with the types of YAML, and as text."""
    content = file.read_text("utf-8")
    typed, text = yaml.safe_load(content)["tests"], yaml.load(content, yaml.BaseLoader)["tests"]
    return list(zip(typed, text, strict=True))


def attributes(typed: dict[str, Any], text: dict[str, Any]) -> dict[str, Any]:
    """The event of a case: times as they are written."""
    found = {**(typed.get("event") or EVENT), **typed.get("eventOverrides", {})}
    written = {**(text.get("event") or {}), **text.get("eventOverrides", {})}
    return {name: value if isinstance(value, bool | int | str) else written[name] for name, value in found.items()}


@pytest.mark.row("CE-3.2.3-7")
@pytest.mark.parametrize("file", CASES)
def test_every_case_has_its_result_and_its_error(cesql_tck: Path, file: str) -> None:
    found = cases(cesql_tck / f"{file}.yaml")
    assert len(found) == CASES[file]
    for typed, text in found:
        about, error = f"{file}: {typed['name']}: {text['expression']}", typed.get("error")
        if error in WHEN_PARSED:
            with pytest.raises(AmqpError):
                parse_cesql(text["expression"])
            continue
        result = compile_cesql(parse_cesql(text["expression"]))(attributes(typed, text))
        assert isinstance(result, Failed) == (error is not None), about
        if isinstance(result, Failed):
            assert result.error.value == error, about
            result = result.value
        expected = typed["result"] if isinstance(typed["result"], bool | int | str) else text["result"]
        assert (type(result), result) == (type(expected), expected), about


def test_all_files_are_read(cesql_tck: Path) -> None:
    assert sorted(path.stem for path in cesql_tck.glob("*.yaml")) == sorted(CASES)
