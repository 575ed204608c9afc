"""Python files of the project, by folder: which files, packages and classes there are."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PRODUCT = ("gateway", "bridges", "policies")
TOPS = (*PRODUCT, "tests")
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields of a statement that hold statements."""


@dataclass(frozen=True)
class Module:
    """One Python file, by its path below the root."""

    path: Path
    documented: bool
    """Whether it has a docstring."""
    exports: frozenset[str]
    """The names in `__all__`."""
    imports: tuple[ast.Import | ast.ImportFrom, ...]
    """Each import, those within functions included."""
    classes: frozenset[str]
    """At the top of the module."""
    anys: int
    """How often the product's code (not its text) uses `Any`; the import that brings it is not counted."""

    @classmethod
    def read(cls, root: Path, path: Path) -> Module:
        """Parse a file, and keep what the rules ask for: all syntax trees together are half a gigabyte."""
        text = path.read_text("utf-8")
        tree = ast.parse(text)
        classes = frozenset(node.name for node in tree.body if isinstance(node, ast.ClassDef))
        below = path.relative_to(root)
        documented, anys = bool(ast.get_docstring(tree)), _anys(tree) if "Any" in text and is_product(below) else 0
        return cls(below, documented, _exports(tree), tuple(_imports(tree)), classes, anys)

    @property
    def folder(self) -> str:
        return self.path.parent.as_posix()

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def is_test(self) -> bool:
        return self.path.name.startswith("test_")

    @property
    def in_product(self) -> bool:
        return is_product(self.path)

    @property
    def dotted(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if self.is_package else parts)


def is_product(path: Path) -> bool:
    return path.parts[0] in PRODUCT


def _exports(tree: ast.Module) -> frozenset[str]:
    return frozenset(
        name.value
        for node in tree.body
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets)
        and isinstance(node.value, ast.List | ast.Tuple)
        for name in node.value.elts if isinstance(name, ast.Constant) and isinstance(name.value, str)
    )  # fmt: skip


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """A module and the statements in it, those within others included: few of all nodes."""
    waiting: list[ast.AST] = [tree]
    for node in waiting:
        yield node
        for name in _BODIES:
            waiting += getattr(node, name, ())


def _imports(tree: ast.Module) -> Iterator[ast.Import | ast.ImportFrom]:
    return (node for node in statements(tree) if isinstance(node, ast.Import | ast.ImportFrom))


def _anys(tree: ast.Module) -> int:
    nodes = ast.walk(tree)
    return sum(getattr(node, "id", None) == "Any" or getattr(node, "attr", None) == "Any" for node in nodes)


@dataclass(frozen=True)
class Tree:
    """All modules below `gateway`, `bridges`, `policies` and `tests`."""

    modules: list[Module]

    @classmethod
    def read(cls, root: Path) -> Tree:
        """Parse each Python file of the project below `root`."""
        paths = [path for top in TOPS for path in sorted((root / top).rglob("*.py"))]
        return cls([Module.read(root, path) for path in paths])

    @cached_property
    def folders(self) -> dict[str, list[Module]]:
        """Folder to the modules directly in it, `__init__.py` included."""
        found: dict[str, list[Module]] = defaultdict(list)
        for module in self.modules:
            found[module.folder].append(module)
        return dict(sorted(found.items()))

    @cached_property
    def packages(self) -> set[str]:
        """The folders of the product, as paths."""
        return {folder for folder, modules in self.folders.items() if modules[0].in_product}

    def files(self, folder: str) -> list[Module]:
        """The modules of a folder without its `__init__.py`."""
        return [module for module in self.folders[folder] if not module.is_package]

    def families(self, folder: str) -> dict[str, int]:
        """First word of file names (up to an underscore) to the number of files that share it."""
        stems = (module.path.stem.removeprefix("test_").strip("_") for module in self.files(folder))
        return dict(Counter(stem.partition("_")[0] for stem in stems))

    def classes(self) -> dict[str, list[str]]:
        """Name of a class at the top of a product module to the dotted names of the modules that define one."""
        found: dict[str, list[str]] = defaultdict(list)
        for module in self.modules:
            if module.in_product:
                for name in module.classes:
                    found[name].append(module.dotted)
        return dict(sorted(found.items()))

    def anys(self) -> dict[str, int]:
        """Folder of the product to the uses of `Any` in it, where there is one."""
        counts = {folder: sum(module.anys for module in self.folders[folder]) for folder in sorted(self.packages)}
        return {folder: count for folder, count in counts.items() if count}

    def misplaced(self, tiers: tuple[str, ...], beside: frozenset[str]) -> Iterator[str]:
        """Folders with tests below `tests/<tier>` that have no package of the product's path, `beside` excepted."""
        for folder, modules in self.folders.items():
            for tier in tiers:
                place = folder.removeprefix(f"tests/{tier}/")
                if place != folder and place not in self.packages | beside and any(m.is_test for m in modules):
                    yield folder
