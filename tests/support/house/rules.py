"""The rules of the tree, and the violations that allowed.txt still permits.

A violation is one line: its kind, what violates, and for `any` a number. The list may only get shorter: a violation
that is not on it fails, and so does a line whose violation is gone. `any` alone is an upper bound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.house.circles import Graph, by_package, circles, import_graph
from tests.support.house.tree import Module, Tree

ROOT: Final = Path(__file__).resolve().parents[3]
ALLOWED: Final = Path(__file__).with_name("allowed.txt")
FILES: Final = 16
"""Python files in a folder, `__init__.py` not counted."""
FAMILY: Final = 3
"""Files with the same first word that are a folder of their own."""
ANY_TARGET: Final = 453
"""A third of the uses that the product had when this was begun."""
SLACK: Final = 5
"""Uses of `Any` that the bound stays above the tree, so that work side by side does not end at each of them."""
MIRRORING: Final = ("unit", "property", "protocol")
"""Folders of tests/ whose folders are called like a package of the product: tests/unit/gateway/amqp."""
BESIDE: Final = frozenset({"project", "suite"})
"""Folders for tests of what is no package: documents, deployment; the suite itself."""
COMPILED: Final = frozenset({"_batch", "_decode", "_fetch", "_produce", "_rows", "_sections"})
"""Modules in C, which this does not read."""
SAME_CONCEPT: Final[dict[str, str]] = {}
"""Class names that several modules may define, with the concept or protocol that they share."""


def violations(tree: Tree) -> dict[str, set[str]]:
    """Kind to the lines of what violates it."""
    return {
        "circle": {name for circle in circles(import_graph(tree)) for name in circle},
        "package": {name for circle in circles(package_graph(tree)) for name in circle},
        "class": {name for name, at in tree.classes().items() if len(at) > 1 and name not in SAME_CONCEPT},
        "docstring": {folder for folder in tree.folders if not has_docstring(tree.folders[folder])},
        "exports": {*unlisted(tree)},
        "family": {f"{folder} {word}" for folder, word in families(tree)},
        "files": {folder for folder in tree.folders if len(tree.files(folder)) > FILES},
        "mirror": {*tree.misplaced(MIRRORING, BESIDE)},
    }


def unlisted(tree: Tree) -> Iterator[str]:
    """Packages of the product from which other modules import names, and that have no `__all__` with them."""
    known = {module.dotted for module in tree.modules}
    packages = {module.dotted: module for module in tree.modules if module.in_product and module.is_package}
    for module in tree.modules:
        for node in module.imports:
            if isinstance(node, ast.ImportFrom) and node.module in packages and node.module != module.dotted:
                names = {alias.name for alias in node.names if f"{node.module}.{alias.name}" not in known}
                if names - packages[node.module].exports - COMPILED:
                    yield node.module


def package_graph(tree: Tree) -> Graph:
    """The packages of the product, and which of them each imports; one with modules and packages counts as both."""
    modules = {module.dotted: module for module in tree.modules if module.in_product}
    graph = {name: targets & modules.keys() for name, targets in import_graph(tree).items() if name in modules}
    return by_package(graph, {name for name, module in modules.items() if module.is_package})


def families(tree: Tree) -> set[tuple[str, str]]:
    """Folders and the first words that too many files in them share."""
    return {(folder, word) for folder in tree.folders for word, n in tree.families(folder).items() if n >= FAMILY}


def has_docstring(modules: list[Module]) -> bool:
    """Whether a folder's `__init__.py` says what it is for; one with nothing but tests needs none."""
    for module in modules:
        if module.is_package:
            return module.documented
    return all(module.is_test or module.path.name == "conftest.py" for module in modules)


def allowed(text: str) -> tuple[dict[str, set[str]], int]:
    """What allowed.txt lets pass: kind to lines, and how often the product may use `Any`."""
    kinds: dict[str, set[str]] = {}
    anys = ANY_TARGET
    for line in text.splitlines():
        kind, _, what = line.partition(" ")
        if kind == "any":
            anys = int(what)
        elif line and not line.startswith("#"):
            kinds.setdefault(kind, set()).add(what)
    return kinds, anys


def shrunk(tree: Tree, text: str) -> str:
    """allowed.txt as the tree is now. Moves may rename a line.

    Raises:
        ValueError: a kind would get more lines than it has.
    """
    kinds, anys = allowed(text)
    now = violations(tree)
    grown = {kind: sorted(now[kind] - kinds.get(kind, set())) for kind in now if more(now[kind], kinds.get(kind))}
    if grown:
        raise ValueError(f"more than allowed.txt has: {grown}")
    head = [line for line in text.splitlines() if line.startswith("#")]
    lines = [f"{kind} {what}" for kind in now for what in now[kind]]
    return "\n".join([*head, f"any {min(anys, sum(tree.anys().values()) + SLACK)}", *sorted(lines), ""])


def more(now: set[str], before: set[str] | None) -> bool:
    return len(now) > len(before or ())
