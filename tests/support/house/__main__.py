"""`python -m tests.support.house`: the tree in figures, for a note before and after a change of the layout."""

from __future__ import annotations

import sys
from collections.abc import Iterator

from tests.support.house.circles import circles, import_graph
from tests.support.house.rules import ALLOWED, FILES, ROOT, SAME_CONCEPT, families, package_graph, shrunk
from tests.support.house.tree import Tree


def report(tree: Tree) -> Iterator[str]:
    """The lines of the report."""
    yield from _folders(tree)
    doubled = {name: at for name, at in tree.classes().items() if len(at) > 1}
    yield f"\nclass names in two or more modules of the product: {len(doubled)}"
    yield from (f"  {name}: {SAME_CONCEPT.get(name) or ', '.join(at)}" for name, at in doubled.items())
    yield f"\nuses of Any in the product: {sum(tree.anys().values())}"
    yield from (f"  {count:5} {folder}" for folder, count in tree.anys().items())
    yield from _circles(tree)


def _folders(tree: Tree) -> Iterator[str]:
    yield f"Python files by folder, without __init__.py ({FILES} at most):"
    shared = families(tree)
    for folder in tree.folders:
        words = ", ".join(f"{word}_*" for place, word in sorted(shared) if place == folder)
        depth, name = folder.count("/"), folder.rpartition("/")[2]
        yield f"  {len(tree.files(folder)):4} {'  ' * depth}{name}/{'   families: ' + words if words else ''}"


def _circles(tree: Tree) -> Iterator[str]:
    graph = import_graph(tree)
    found = circles(graph)
    yield f"\nimport circles between modules, type-only imports counted: {len(found)}"
    yield from (f"  {len(circle)}: {', '.join(circle)}" for circle in found)
    found = circles(package_graph(tree))
    yield f"\nof packages of the product: {len(found)}"
    yield from (f"  {len(circle)}: {', '.join(circle)}" for circle in found)


def main(arguments: list[str]) -> int:
    tree = Tree.read(ROOT)
    if "--shrink" not in arguments:
        print("\n".join(report(tree)))
        return 0
    try:
        ALLOWED.write_text(shrunk(tree, ALLOWED.read_text("utf-8")), "utf-8")
    except ValueError as exc:
        print(exc, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
