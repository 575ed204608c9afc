"""The front door keeps its promises: links lead somewhere, the README's policy is one, modules named exist."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from itertools import takewhile
from pathlib import Path

import pytest

from policies.load.loader import load_policy
from tests.bench.cases.catalogue import CASES
from tests.support.project.parts import ROOT

PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
DESIGN = (ROOT / "docs/design.md").read_text()


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", text)
    local = [link for link in links if "://" not in link]
    assert [link for link in local if not (page.parent / link).exists()] == []


def fenced(text: str, language: str) -> str:
    """Return the first code block of a language."""
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found, language
    return found[1]


def test_the_policy_in_the_readme_is_one_of_twenty_lines(tmp_path: Path) -> None:
    text = fenced(README, "yaml")
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    policy = load_policy(path, environ={}, read_bytes=Path.read_bytes, with_secrets=False)
    assert all("gateway.state: memory" in warning.message for warning in policy.warnings), "that it is a small one"
    assert text.count("\n") <= 21


@pytest.mark.parametrize("page", [README, CONTRIBUTING], ids=["readme", "contributing"])
def test_commands_exist(page: str) -> None:
    commands = set(re.findall(r"`?scopegate ([a-z]+)", page))
    made = set(re.findall(r"(?:^|`)make ([a-z-]+)", page, re.MULTILINE))
    listed = subprocess.run(
        [sys.executable, "-m", "gateway.cli.main", "--help"], capture_output=True, text=True, cwd=ROOT, check=True
    ).stdout
    assert [name for name in commands if not re.search(rf"^  {name}\b", listed, re.MULTILINE)] == []
    assert made <= set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def test_contributing_is_one_page_of_places_that_exist() -> None:
    assert CONTRIBUTING.count("\n") <= 100
    code = re.findall(r"`([^`\n]+)`", CONTRIBUTING) + fenced(CONTRIBUTING, "").split()
    words = {word.rstrip(";") for text in code for word in text.split()}
    places = {word for word in words if "/" in word and not word.startswith(".venv/")}
    modules = {word for text in code for word in re.findall(r"-m (tests\.[\w.]+)", text)}
    places |= {name.replace(".", "/") for name in modules}
    for folder, text in re.findall(r"^\| `([\w/]+)` \| (.*) \|$", CONTRIBUTING, re.MULTILINE):
        places |= {f"{folder}/{name}" for name in re.findall(r"`(\w+)`", text)}
    assert len(places) > 30
    assert sorted(place for place in places if not (ROOT / place).exists()) == []


def test_modules_named_in_the_design_exist() -> None:
    house = fenced(DESIGN, "")
    folder, missing = "", []
    for line in house.splitlines():
        top, inner = re.match(r"(\w+)/", line), re.match(r"  ([\w./ ]+?)  ", line)
        folder = top[1] if top else folder
        names = [folder] if top else [f"{folder}/{name}" for name in inner[1].split()] if inner else []
        missing += [name for name in names if not (ROOT / name).exists()]
    missing += [path for path in re.findall(r"`((?:gateway|bridges|policies)/[\w/.]+)`", DESIGN)
                if not (ROOT / path).exists() and path not in ("bridges/cloudevents", "bridges/spark")]  # fmt: skip
    assert missing == []


def test_fast_paths_name_the_properties_that_hold_them_equal() -> None:
    page = (ROOT / "docs/decisions/0095-written-twice-on-purpose.md").read_text()
    rows = re.findall(r"^\| (?!fast path|---)(.+) \|$", page, re.MULTILINE)
    named = [path for row in rows for path in re.findall(r"`((?:gateway|bridges|tests)/[\w/.]+)`", row)]
    assert len(rows) > 10
    assert all("tests/property/" in row for row in rows)
    assert [path for path in named if not (ROOT / path).exists()] == []


@pytest.mark.parametrize("top", ["gateway", "bridges"])
def test_the_design_lists_every_room(top: str) -> None:
    lines = fenced(DESIGN, "").partition(f"{top}/")[2].splitlines()[1:]
    listed = [line.split()[0] for line in takewhile(lambda line: line.startswith("  "), lines)]
    rooms = {path.parent.name for path in (ROOT / top).glob("*/__init__.py")}
    assert sorted(rooms - set(listed)) == [], "add a line to docs/design.md, chapter 3"


def test_the_benchmarks_are_one_page_and_name_the_groups_that_there_are() -> None:
    page = (ROOT / "docs/benchmarks.md").read_text()
    assert page.count("\n") <= 150
    table = page.partition("| group |")[2].partition("\n\n")[0]
    firsts = re.findall(r"^\| `([^|]+)` \|", table, re.MULTILINE)
    groups = {name for first in firsts for name in first.split("`, `")}
    assert groups == CASES.keys() - {"loadgen"}
    assert set(" ".join(re.findall(r'"--only ([^"]+)"', page)).split()) <= groups


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_imports_shown_on_a_page_exist(page: Path) -> None:
    shown = re.findall(r"^from ((?:gateway|bridges|policies)[\w.]*) import ([\w, ]+)", page.read_text(), re.MULTILINE)
    for module, names in shown:
        spec = importlib.util.find_spec(module)
        assert spec
        source = Path(str(spec.origin)).read_text()
        there = r"^(?:class|def) {0}\b|^from .* import (?:\([^)]*|.*)\b{0}\b"
        wanted = {name: there.format(name) for name in re.findall(r"\w+", names)}
        missing = [name for name, pattern in wanted.items() if not re.search(pattern, source, re.MULTILINE)]
        assert missing == [], module


def test_every_dependency_has_its_reason() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    listed = re.search(r"^dependencies = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert listed
    names = re.findall(r'"([a-z.-]+)', listed[1])
    page = (ROOT / "docs/decisions/0002-dependencies.md").read_text()
    rows = re.findall(r"^\| ([a-z., -]+) \|", page, re.MULTILINE)
    assert set(names) - set(re.split(r", ", ", ".join(rows))) == set()


def test_pages_name_no_place_outside_the_project() -> None:
    for page in PAGES:
        assert not re.search(r"\.\./shared|(?<![\w.])/(home|root|tmp|work)\b", page.read_text()), page
