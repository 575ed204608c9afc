"""Which tests reach which function: found once by a run in which no mutant stands, and asked for each mutant."""

from __future__ import annotations

import ast
import json
import shutil
import tempfile
from collections import defaultdict
from pathlib import Path

from tests.mutation.copies import copied, run
from tests.mutation.targets import files_of_tests
from tests.mutation.tracing import FOLDER
from tests.support.project.parts import ROOT

FILE = ROOT / "build" / "reached.json"
HOURS = 3 * 3600.0


class Reached:
    """Files of tests by the function that they reach, and how long each takes."""

    def __init__(self, functions: dict[str, list[str]], took: dict[str, float], failed: list[str]) -> None:
        self._functions = functions
        self.took = took
        self.failed = failed
        """Tests that fail without any mutant, and so say nothing."""

    def tests_of(self, file: str, line: int, source: str) -> list[str]:
        """Return the files of tests that reach the function of a line, the quickest first.

        For a line outside all functions, and for a function that runs only at import: those that reach its module.
        """
        place = f"{file}:{begin_of(line, source)}"
        found = self._functions.get(place) or self._of_module(file)
        return sorted(found, key=lambda name: self.took[name])

    def _of_module(self, file: str) -> set[str]:
        return {name for place, names in self._functions.items() if place.startswith(file + ":") for name in names}


def begin_of(line: int, source: str) -> int:
    """Return the first line, decorators included, of the innermost function that holds a line; 0 outside."""
    begin = 0
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
            if first <= line <= (node.end_lineno or first):
                begin = max(begin, first)
    return begin


def kept() -> Reached:
    """Return what the last run found."""
    found = json.loads(FILE.read_text())
    return Reached(**found)


def find(workers: int) -> Reached:
    """Run all tests once, traced, and keep what they reach in build/reached.json; tests that fail are left out."""
    with tempfile.TemporaryDirectory(prefix="reached-") as folder:
        tree, notes = copied(Path(folder) / "tree"), Path(folder) / "notes"
        notes.mkdir()
        shutil.copy(tree / "tests" / "mutation" / "tracing.py", tree / "sitecustomize.py")
        plugins = ["-p", "tests.mutation.reach", "-n", str(workers), "--dist", "loadfile"]
        run(tree, [*plugins, *files_of_tests()], HOURS, {FOLDER: str(notes)})
        keep(notes)
    return kept()


def keep(notes: Path) -> None:
    """Gather the notes of a traced run into build/reached.json."""
    tests = json.loads((notes / "tests.json").read_text())
    print(f"{len(tests['took'])} files of tests; left out, for they fail without any mutant: {tests['failed']}")
    functions: dict[str, set[str]] = defaultdict(set)
    for path in notes.iterdir():
        name = path.name.replace("+", "/")
        if name in tests["took"]:
            for place in path.read_text().split():
                functions[place].add(name)
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(json.dumps({**tests, "functions": {place: sorted(names) for place, names in functions.items()}}))
