"""A radix tree of items under prefixes: finds the items of all prefixes of a text.

A lookup walks down the tree once, at most to the end of the text; the cost of adding or removing a prefix is
proportional to its length.
"""

from __future__ import annotations

from typing import Final, Generic, TypeVar

T = TypeVar("T")


class _Node(Generic[T]):
    """A node; `text` labels the edge from its parent. No two children begin with the same character."""

    __slots__ = ("children", "items", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.items: Final[dict[T, None]] = {}
        self.children: dict[str, _Node[T]] = {}


class PrefixTree(Generic[T]):
    """Items stored under prefixes, found by every text that begins with one of them."""

    def __init__(self) -> None:
        self._root: Final = _Node[T]("")

    def add(self, prefix: str, item: T) -> None:
        """Store `item` under `prefix`."""
        node, at = self._root, 0
        while at < len(prefix):
            child = node.children.get(prefix[at])
            if child is None:
                child = _Node(prefix[at:])
                node.children[prefix[at]] = child
            same = _common(child.text, prefix, at)
            if same < len(child.text):
                child = _split(node, child, same)
            node, at = child, at + same
        node.items[item] = None

    def remove(self, prefix: str, item: T) -> None:
        """Remove `item` from exactly this prefix; it must be there."""
        above, node, at = self._root, self._root, 0
        grand = above
        while at < len(prefix):
            grand, above, node = above, node, node.children[prefix[at]]
            at += len(node.text)
        del node.items[item]
        if node is not self._root and not node.items and not node.children:
            del above.children[node.text[0]]
            node, above = above, grand
        if node is not self._root and not node.items and len(node.children) == 1:
            _merge(above, node)

    def waiting(self, prefix: str) -> int:
        """The number of items under exactly this prefix."""
        node, at = self._root, 0
        while at < len(prefix):
            child = node.children.get(prefix[at])
            if child is None or not prefix.startswith(child.text, at):
                return 0
            node, at = child, at + len(child.text)
        return len(node.items)

    def find(self, text: str, found: list[T]) -> None:
        """Add the items under all prefixes of `text` to `found`."""
        node, at, end = self._root, 0, len(text)
        while True:
            if node.items:
                found += node.items
            if at >= end:
                return
            child = node.children.get(text[at])
            if child is None or not text.startswith(child.text, at):
                return
            at += len(child.text)
            node = child

    def __bool__(self) -> bool:
        """Whether any item is stored."""
        return bool(self._root.children or self._root.items)


def _common(text: str, other: str, at: int) -> int:
    """The length of the common prefix of `text` and of `other` from `at` on."""
    if other.startswith(text, at):
        return len(text)
    pairs = zip(text, other[at : at + len(text)], strict=False)
    return next((number for number, (one, two) in enumerate(pairs) if one != two), len(other) - at)


def _split(parent: _Node[T], child: _Node[T], at: int) -> _Node[T]:
    """Insert a node between the two that takes the first `at` characters of the child's text."""
    middle = _Node[T](child.text[:at])
    parent.children[middle.text[0]] = middle
    child.text = child.text[at:]
    middle.children[child.text[0]] = child
    return middle


def _merge(parent: _Node[T], node: _Node[T]) -> None:
    """Replace a node without items and with one child by the child."""
    (child,) = node.children.values()
    child.text = node.text + child.text
    parent.children[child.text[0]] = child
