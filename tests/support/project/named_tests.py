"""Tests that pages name as `folder/test_file.py::test_name`, relative to tests/integration or to tests."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tests.support.project.parts import ROOT

_NAMED = re.compile(r"`((?:\w+/)+test_\w+\.py)(?:::(test_\w+))?`")
_TIERS = ("unit", "property", "protocol", "integration", "soak")


def named_tests(page: str) -> list[tuple[str, str]]:
    """File and test of each name on a page; the test is empty where only a file is named."""
    return _NAMED.findall(page)


def missing_tests(page: str) -> Iterator[str]:
    """The names on a page that no test has."""
    for file, test in named_tests(page):
        tier = file.partition("/")[0]
        path = ROOT / "tests" / (file if tier in _TIERS else f"integration/{file}")
        text = path.read_text() if path.exists() else ""
        if not text or (test and not re.search(rf"^(?:async )?def {test}\(", text, re.MULTILINE)):
            yield f"{file}::{test}"
