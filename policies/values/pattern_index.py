"""An index of address patterns: which of many match an address, cover a pattern or meet one, without trying each.

The patterns are laid out as a tree with a level for each segment. What a search costs depends on the patterns that
begin like what is searched, not on the number of rules; `meeting` looks at all of a level where a wildcard is
searched. `tests/property/policies/test_pattern_index.py` holds the index equal to the patterns' own matching.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from policies.values.patterns import Pattern, PatternShape, Segment

_NONE: Final = 1 << 62
"""The position of a pattern that does not exist: behind all others."""


class _SegmentNode:
    """Patterns that share the segments up to here; positions, `_NONE` where there is none."""

    __slots__ = ("_around", "_literal", "_wild", "end", "least", "rest")

    def __init__(self) -> None:
        self.end = self.rest = self.least = _NONE
        self._literal: dict[str, _SegmentNode] = {}
        self._wild: dict[tuple[str, str], _SegmentNode] = {}
        self._around: dict[tuple[int, int], None] = {}

    def child(self, segment: Segment) -> _SegmentNode:
        """The node behind a segment of a pattern, made if it is the first."""
        if not segment.wild:
            return self._literal.setdefault(segment.before, _SegmentNode())
        self._around[len(segment.before), len(segment.after)] = None
        return self._wild.setdefault((segment.before, segment.after), _SegmentNode())

    def matching(self, part: str) -> Iterator[_SegmentNode]:
        """The nodes behind all segments that match this part of an address."""
        if (node := self._literal.get(part)) is not None:
            yield node
        size = len(part)
        for before, after in self._around:
            if size > before + after and (node := self._wild.get((part[:before], part[size - after :]))) is not None:
                yield node

    def covering(self, segment: Segment) -> Iterator[_SegmentNode]:
        """The nodes behind all segments that match everything that this one matches."""
        if not segment.wild:
            yield from self.matching(segment.before)
            return
        first, last = segment.before, segment.after
        for before, after in self._around:
            if before <= len(first) and after <= len(last):
                node = self._wild.get((first[:before], last[len(last) - after :]))
                if node is not None:
                    yield node

    def meeting(self, segment: Segment) -> Iterator[_SegmentNode]:
        """The nodes behind all segments that match something that this one matches."""
        if not segment.wild:
            yield from self.matching(segment.before)
            return
        yield from (node for text, node in self._literal.items() if segment.matches(text))
        yield from (node for (before, after), node in self._wild.items() if segment.fits(before, after))

    def all(self) -> Iterator[_SegmentNode]:
        """The nodes behind all segments."""
        yield from self._literal.values()
        yield from self._wild.values()


class PatternIndex:
    """Patterns with their positions; of patterns that differ in the names of captures only, the lowest is found."""

    __slots__ = ("_root",)

    def __init__(self, patterns: Iterable[tuple[int, Pattern]]) -> None:
        self._root = _SegmentNode()
        for position, pattern in patterns:
            self._add(position, pattern)

    def _add(self, position: int, pattern: Pattern) -> None:
        node = self._root
        node.least = min(node.least, position)
        for segment in pattern.segments:
            node = node.child(segment)
            node.least = min(node.least, position)
        if pattern.rest:
            node.rest = min(node.rest, position)
        else:
            node.end = min(node.end, position)

    def first(self, address: str) -> int | None:
        """The lowest position of a pattern that matches a `routable` address; None: no pattern does."""
        return self._lowest(address.split("/"))

    def covering(self, pattern: Pattern) -> int | None:
        """The lowest position of a pattern that matches everything that `pattern` matches; None: no pattern does."""
        return self._lowest(pattern.segments, pattern.rest)

    def _lowest(self, parts: Sequence[str | Segment], rest: bool = False) -> int | None:
        """`rest`: any segments may follow the parts."""
        found, waiting = _NONE, [(self._root, 0)]
        while waiting:
            node, depth = waiting.pop()
            if node.least >= found:
                continue
            found = min(found, node.rest)
            if depth < len(parts):
                part = parts[depth]
                behind = node.matching(part) if isinstance(part, str) else node.covering(part)
                waiting += [(each, depth + 1) for each in behind]
            elif not rest:
                found = min(found, node.end)
        return None if found == _NONE else found

    def meeting(self, shape: PatternShape) -> Iterator[int]:
        """The positions of the patterns that may match an address of this shape, in no order."""
        waiting = [(self._root, 0)]
        while waiting:
            node, depth = waiting.pop()
            if node.rest != _NONE:
                yield node.rest
            if depth < len(shape.segments):
                waiting += [(each, depth + 1) for each in node.meeting(shape.segments[depth])]
                continue
            if node.end != _NONE:
                yield node.end
            if shape.rest:
                waiting += [(each, depth + 1) for each in node.all()]
