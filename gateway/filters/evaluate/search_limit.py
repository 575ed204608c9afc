"""The longest text that LIKE searches for a link, which bounds the work for one message (FX-5-25, docs/filters.md).

A pattern whose parts are at the ends of a text costs next to nothing; any other one searches the text, character by
character where `_` is between characters. The patterns of a link share the cost that is allowed for a message evenly.
"""

from __future__ import annotations

from typing import Final

from gateway.filters import like
from gateway.filters.predicate import Like, Literal, Predicate, walk, with_longest

WORK: Final = 1 << 25
"""The cost that all LIKE of a link may have for one message, in nanoseconds, roughly."""
_FOUND: Final = 4
"""Cost of a character of a text in which parts without `_` between characters are searched for."""
_STEPPED: Final = 64
"""Cost of a character of a text that is stepped through, for each `_STEP` characters of the longest part."""
_STEP: Final = 512
_LONGEST_PART: Final = 4096


def limited(predicate: Predicate, work: int = WORK) -> Predicate:
    """The predicate with a limit for the texts of LIKE, where it has any that searches."""
    cost = sum(cost_of(node) for node in walk(predicate) if isinstance(node, Like))
    return with_longest(predicate, lambda term: work // cost if cost_of(term) else None) if cost else predicate


def cost_of(term: Like) -> int:
    """The cost of one character of its text."""
    if not isinstance(term.pattern, Literal) or not isinstance(term.escape, Literal | None):
        return _STEPPED * (1 + _LONGEST_PART // _STEP)
    between = [part for part in (like.constant(term) or ())[1:-1] if part.chunks]
    stepped = [part.length for part in between if len(part.chunks) > 1]
    if stepped:
        return _STEPPED * (1 + max(stepped) // _STEP)
    return _FOUND if between else 0
