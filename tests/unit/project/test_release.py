"""A release's version is written once, and the changelog dates it."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path

import pytest

import gateway
from tests.support.project.parts import ROOT

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
HEADINGS = re.findall(r"^## (.*)$", CHANGELOG, re.MULTILINE)
SETUPTOOLS = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
FOLDERS = ("gateway", "bridges", "policies", "tests", "docs", "deploy", "scripts")
TEXTS = {".py", ".pyi", ".c", ".h", ".toml", ".md", ".yaml", ".yml", ".json", ".service", ".xml", ".lock", ""}


def texts() -> list[Path]:
    """The project's text files but for the changelog, which tells of every version."""
    below = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*") if "__pycache__" not in path.parts]
    files = [path for path in [*ROOT.glob("*"), *below] if path.is_file() and path.suffix in TEXTS]
    return [path for path in files if path.name != "CHANGELOG.md"]


def test_the_version_is_written_in_one_place() -> None:
    version = re.compile(rf"(?<![\w.]){re.escape(gateway.__version__)}(?![\w.])")
    found = [path for path in texts() if version.search(path.read_text("utf-8", "replace"))]
    assert [path.relative_to(ROOT).as_posix() for path in found] == ["gateway/__init__.py"]


def product(pattern: str) -> set[str]:
    """Paths of the product's files with such a name."""
    return {path.relative_to(ROOT).as_posix() for top in FOLDERS[:3] for path in (ROOT / top).rglob(pattern)}


def test_the_build_names_every_c_source_and_the_headers_that_it_includes() -> None:
    modules = {module["sources"][0]: module for module in SETUPTOOLS["ext-modules"]}
    assert modules.keys() == product("*.c")
    for source, module in modules.items():
        assert module["name"] == source.removesuffix(".c").replace("/", ".")
        assert sorted(module["depends"]) == sorted(included(ROOT / source)), source


def included(path: Path) -> set[str]:
    """Headers of the product that a C file includes, directly or through another."""
    names = re.findall(r'^#include "([^"]+)"', path.read_text(), re.MULTILINE)
    direct = {(path.parent / name).resolve() for name in names}
    found = {header.relative_to(ROOT).as_posix() for header in direct}
    return found.union(*(included(header) for header in direct))


def test_the_package_has_the_stubs_of_its_c_modules() -> None:
    assert product("*.pyi") == {source.removesuffix(".c") + ".pyi" for source in product("*.c")}
    assert SETUPTOOLS["package-data"]["*"] == ["*.pyi"]


def test_the_changelog_dates_this_version_below_what_is_unreleased() -> None:
    assert HEADINGS[0] == "Unreleased"
    released = [heading.partition(" - ") for heading in HEADINGS[1:]]
    assert released[0][0] == gateway.__version__
    dates = [date.fromisoformat(day) for _, _, day in released]
    assert dates == sorted(dates, reverse=True)


@pytest.mark.parametrize("heading", HEADINGS[1:])
def test_a_release_has_one_line_for_each_entry(heading: str) -> None:
    text = CHANGELOG.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for line in text.splitlines() if line and not line.startswith("### ")]
    entries = [line for line in lines if line.startswith("- ")]
    assert len(lines) - len(entries) <= 1, "an introduction of one line, and entries of one line each"
    assert len(set(entries)) == len(entries) > 0
    assert [line for line in entries if len(line) > 120 or not line.endswith(".")] == []
