"""The import graph, type-only imports and imports within functions included, and the circles in it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter

from tests.support.house.tree import Module, Tree

Graph = dict[str, set[str]]


def import_graph(tree: Tree) -> Graph:
    """Module to the modules that any statement in it imports; only modules of the tree count.

    `from package import name` is an edge to the module `package.name` where there is one, else to the package.
    That importing a module runs the packages above it is not an edge: their `__init__` files are seldom imported
    for themselves, and each of them would make a circle with what it shows.
    """
    known = {module.dotted for module in tree.modules}
    return {m.dotted: {*_imports(m, known)} - {m.dotted} for m in tree.modules}


def _imports(module: Module, known: set[str]) -> Iterator[str]:
    for node in module.imports:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)
        elif node.module and not node.level:
            for alias in node.names:
                target = f"{node.module}.{alias.name}"
                yield from ({target, node.module} & known and [target if target in known else node.module])


def circles(graph: Graph) -> list[list[str]]:
    """The sets of modules that all reach each other, larger ones first; none if there is no circle."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError:
        return _circles(graph)
    return []


def _circles(graph: Graph) -> list[list[str]]:
    reached = {start: _reach(graph, start) for start in graph}
    groups = {tuple(sorted(b for b in reached[a] if a in reached[b])) for a in graph if a in reached[a]}
    return sorted(map(list, groups), key=lambda group: (-len(group), group))


def by_package(graph: Graph, packages: set[str]) -> Graph:
    """The graph of packages: one imports another when a module of it does."""

    def package(name: str) -> str:
        return name if name in packages else name.rpartition(".")[0]

    found: Graph = {}
    for module, targets in graph.items():
        found.setdefault(package(module), set()).update(map(package, targets))
    return {name: (targets & found.keys()) - {name} for name, targets in found.items()}


def _reach(graph: Graph, start: str) -> set[str]:
    """What `start` leads to; itself only when it is in a circle."""
    seen: set[str] = set()
    waiting = [*graph[start]]
    while waiting:
        name = waiting.pop()
        if name not in seen:
            seen.add(name)
            waiting += graph[name]
    return seen
