"""Limits the length of texts that LIKE searches, to bound the work for one message (FX-5-25, docs/filters.md).

A pattern whose literals are only at the ends of a text costs next to nothing. Any other pattern searches the text, and
steps through it character by character if `_` is between literals. All patterns of a link share the work that is
allowed for one message evenly.
"""

from __future__ import annotations

from typing import Final

from gateway.filters import like
from gateway.filters.predicate import Like, Literal, Predicate, walk, with_longest

WORK: Final = 1 << 25
"""The work that all LIKE terms of a link may do for one message, in nanoseconds, roughly."""
_FOUND: Final = 4
"""The cost per character of a text that is searched for literals without `_` between them."""
_STEPPED: Final = 64
"""The cost per character of a text that is stepped through, for each `_STEP` characters of the longest part."""
_STEP: Final = 512
_LONGEST_PART: Final = 4096


def limited(predicate: Predicate, work: int = WORK) -> Predicate:
    """The predicate with a length limit for the texts of those LIKE terms that search."""
    cost = sum(cost_of(node) for node in walk(predicate) if isinstance(node, Like))
    return with_longest(predicate, lambda term: work // cost if cost_of(term) else None) if cost else predicate


def cost_of(term: Like) -> int:
    """The cost of a LIKE term per character of its text."""
    if not isinstance(term.pattern, Literal) or not isinstance(term.escape, Literal | None):
        return _STEPPED * (1 + _LONGEST_PART // _STEP)
    between = [part for part in (like.constant(term) or ())[1:-1] if part.chunks]
    stepped = [part.length for part in between if len(part.chunks) > 1]
    if stepped:
        return _STEPPED * (1 + max(stepped) // _STEP)
    return _FOUND if between else 0
