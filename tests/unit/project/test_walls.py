"""The walls and budgets of docs/design.md: who may import what, no clock in pure code, no god module."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

from tests.support.house.tree import statements
from tests.support.project.parts import ROOT

PACKAGES = ("gateway", "bridges", "policies")
MODULE_LINES = 400
FUNCTION_LINES = 40
CLOCK_CALLS = {"now", "utcnow", "today", "monotonic", "perf_counter"}
TASK_CALLS = {"create_task", "ensure_future"}

CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
PURE = next(contract for contract in CONFIG["contracts"] if contract["id"] == "pure")


def modules(*names: str) -> Iterator[Path]:
    """Yield the files of modules and packages given by dotted name."""
    for name in names:
        path = ROOT / name.replace(".", "/")
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imported(tree: ast.Module) -> Iterator[str]:
    """Yield the top-level package of every import, also inside functions and under TYPE_CHECKING."""
    for node in statements(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module.split(".")[0]


def called(tree: ast.AST) -> Iterator[str]:
    """Yield the last name of whatever is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            target = node.func
            yield target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "")


def test_import_contracts_hold() -> None:
    # In a process of its own: it sets up logging anew, which silences every logger that there was.
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr


def test_pure_modules_know_no_loop_clock_or_client() -> None:
    forbidden, imports, calls = set(PURE["forbidden_modules"]), {}, {}
    for path in modules(*PURE["source_modules"]):
        tree = ast.parse(path.read_text())
        imports[named(path)], calls[named(path)] = set(imported(tree)) & forbidden, set(called(tree)) & CLOCK_CALLS
    assert len(imports) > 200
    assert {name: found for name, found in imports.items() if found} == {}
    assert {name: found for name, found in calls.items() if found} == {}, "time is an argument"


def test_only_the_supervisor_makes_tasks() -> None:
    texts = {named(path): path.read_text() for path in modules(*PACKAGES)}
    naming = {name: text for name, text in texts.items() if any(call in text for call in TASK_CALLS)}
    makers = {name for name, text in naming.items() if set(called(ast.parse(text))) & TASK_CALLS}
    assert makers == {"gateway/tasks.py"}


def test_no_module_is_a_god() -> None:
    sizes = {named(path): path.read_text().count("\n") for path in modules(*PACKAGES, "tests")}
    assert {name: lines for name, lines in sizes.items() if lines > MODULE_LINES} == {}


def test_functions_stay_readable() -> None:
    assert {name: lines for name, lines in functions() if lines > FUNCTION_LINES} == {}


def functions() -> Iterator[tuple[str, int]]:
    """Yield `file:function` and its length in lines, for all product code."""
    for path in modules(*PACKAGES):
        for node in statements(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.end_lineno:
                yield f"{named(path)}:{node.name}", node.end_lineno - node.lineno + 1
