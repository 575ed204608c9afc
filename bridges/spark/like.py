"""LIKE as a Column (FX-5-7): string functions where they suffice, else a regular expression without backtracking.

Each part of a pattern is an atomic group, which matches the part's first occurrence. That is sufficient: if there is a
match, there is one with the leftmost occurrence of each part. So matching a part takes linear time in the length of the
text, while Spark's own LIKE takes polynomial time.
"""

from __future__ import annotations

import re

from pyspark.sql import Column
from pyspark.sql import functions as F

from gateway.errors import NOT_IMPLEMENTED, AmqpError
from gateway.filters.like import LikePart

PARTS: int = 512
"""Maximum number of parts of a pattern, since Java's matcher recurses for each."""


def like(text: Column, pattern: list[LikePart]) -> Column:
    """Whether texts match a pattern, given as the parts between its `%`. Raises `AmqpError` for more than `PARTS`."""
    if len(pattern) > PARTS:
        raise AmqpError(NOT_IMPLEMENTED, f"filter over columns: LIKE takes up to {PARTS - 1} %; filter in the gateway")
    if any(part.length > sum(len(chunk) for _, chunk in part.chunks) for part in pattern):
        return text.rlike(expression(pattern))
    texts = ["".join(chunk for _, chunk in part.chunks) for part in pattern]
    if len(texts) == 1:
        return text == F.lit(texts[0])
    first, *middle, last = texts
    if not any(middle):
        both = F.startswith(text, F.lit(first)) & F.endswith(text, F.lit(last))
        return both & (F.octet_length(text) >= len(first.encode()) + len(last.encode()))
    if len(middle) == 1 and not first and not last:
        return F.contains(text, F.lit(middle[0]))
    return text.rlike(expression(pattern))


def expression(pattern: list[LikePart]) -> str:
    """The regular expression of a pattern, in Java's syntax."""
    if len(pattern) == 1:
        return f"(?s)\\A{_part(pattern[0])}\\z"
    first, *middle, last = pattern
    groups = "".join(f"(?>.*?{_part(part)})" for part in middle if part.length)
    return f"(?s)\\A{_part(first)}{groups}.*{_part(last)}\\z"


def _part(part: LikePart) -> str:
    found, position = [], 0
    for offset, chunk in part.chunks:
        found += [_blanks(offset - position), re.escape(chunk)]
        position = offset + len(chunk)
    return "".join([*found, _blanks(part.length - position)])


def _blanks(count: int) -> str:
    return f".{{{count}}}" if count else ""
