"""Python files of the project, by folder: which files, packages and classes there are."""

from __future__ import annotations

import ast
import gc
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

PRODUCT = ("gateway", "bridges", "policies")
TOPS = (*PRODUCT, "tests")
_BODIES = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields of a statement that hold statements."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Without garbage collection, which would walk millions of nodes again and again: two thirds of the time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@dataclass(frozen=True)
class Module:
    """One Python file, by its path below the root."""

    path: Path
    tree: ast.Module

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
        return self.path.parts[0] in PRODUCT

    @property
    def dotted(self) -> str:
        parts = self.path.with_suffix("").parts
        return ".".join(parts[:-1] if self.is_package else parts)

    @property
    def exports(self) -> set[str]:
        """The names in `__all__`."""
        return {
            name.value
            for node in self.tree.body
            if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets)
            and isinstance(node.value, ast.List | ast.Tuple)
            for name in node.value.elts if isinstance(name, ast.Constant) and isinstance(name.value, str)
        }  # fmt: skip

    @cached_property
    def imports(self) -> list[ast.Import | ast.ImportFrom]:
        """Each import, those within functions included; only statements are looked at, which are few of the nodes."""
        found: list[ast.Import | ast.ImportFrom] = []
        waiting: list[ast.AST] = [self.tree]
        for node in waiting:
            if isinstance(node, ast.Import | ast.ImportFrom):
                found.append(node)
            for name in _BODIES:
                waiting += getattr(node, name, ())
        return found

    @cached_property
    def anys(self) -> int:
        """How often the code (not its text) uses `Any`; the import that brings it is not counted."""
        nodes = ast.walk(self.tree)
        return sum(getattr(node, "id", None) == "Any" or getattr(node, "attr", None) == "Any" for node in nodes)


@dataclass(frozen=True)
class Tree:
    """All modules below `gateway`, `bridges`, `policies` and `tests`."""

    modules: list[Module]

    @classmethod
    def read(cls, root: Path) -> Tree:
        """Parse each Python file of the project below `root`."""
        paths = [path for top in TOPS for path in sorted((root / top).rglob("*.py"))]
        with uncollected():
            return cls([Module(path.relative_to(root), ast.parse(path.read_text("utf-8"))) for path in paths])

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
                for name in {node.name for node in module.tree.body if isinstance(node, ast.ClassDef)}:
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
