"""Tests of texts in Arrow: LIKE in linear time, affixes, case folding; each text of a dictionary is tested once."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridges.spark.columns.arrow.datum import Datum
from bridges.spark.columns.filters.engine import LikePattern
from gateway.filters.like import LikePart
from gateway.filters.predicate import Affix
from gateway.filters.values import folded

_MAX_PARTS: Final = 32
"""The most parts of a pattern, and the most `_` in it, for RE2, whose automata grow with both."""

TextTest = Callable[[Datum], Datum]


def dense(item: Datum) -> Datum:
    """The texts without dictionary encoding."""
    return item.dictionary_decode() if isinstance(item, pa.DictionaryArray) else item


def on_distinct(test: TextTest, item: Datum) -> Datum:
    """The results of a test of single values; each value of a dictionary is tested once."""
    if isinstance(item, pa.DictionaryArray):
        return test(item.dictionary).take(item.indices)
    return test(item)


def like(text: Datum, pattern: LikePattern) -> Datum:
    """Whether texts are like a pattern (FX-5-7)."""
    return on_distinct(_like_test(pattern), text)


def _like_test(pattern: LikePattern) -> TextTest:
    if any(blanks(part) for part in pattern.parts):
        return _general(pattern)
    texts = ["".join(chunk for _, chunk in part.chunks) for part in pattern.parts]
    if len(texts) == 1:
        return lambda array: pc.equal(array, texts[0])
    first, *middle, last = texts
    size = len(first.encode()) + len(last.encode())
    if not any(middle):
        return lambda array: _between(array, first, last, size)
    if len(middle) == 1 and not size:
        return lambda array: pc.match_substring(array, middle[0])
    return _general(pattern)


def blanks(part: LikePart) -> int:
    """The number of `_` in a part."""
    return part.length - sum(len(chunk) for _, chunk in part.chunks)


def _between(array: Datum, first: str, last: str, size: int) -> Datum:
    if not last:
        return pc.starts_with(array, first)
    if not first:
        return pc.ends_with(array, last)
    long_enough = pc.greater_equal(pc.binary_length(array), size)
    return pc.and_(pc.and_(pc.starts_with(array, first), pc.ends_with(array, last)), long_enough)


def _general(pattern: LikePattern) -> TextTest:
    if len(pattern.parts) > _MAX_PARTS or sum(map(blanks, pattern.parts)) > _MAX_PARTS:
        return _by_row(pattern.matches)
    expression = "(?s)\\A" + ".*".join(map(_expression, pattern.parts)) + "\\z"
    return lambda array: pc.match_substring_regex(array, expression)


def _expression(part: LikePart) -> str:
    found, position = [], 0
    for offset, chunk in part.chunks:
        found += ["." * (offset - position), re.escape(chunk)]
        position = offset + len(chunk)
    return "".join([*found, "." * (part.length - position)])


def _by_row(matches: Callable[[str], bool]) -> TextTest:
    """The gateway's own matcher, which is linear for every pattern, for patterns that are too long for RE2."""

    def test(array: Datum) -> Datum:
        if isinstance(array, pa.Scalar):
            return pa.scalar(None if array.as_py() is None else matches(array.as_py()), pa.bool_())
        return pa.array([None if text is None else matches(text) for text in array.to_pylist()], pa.bool_())

    return test


def affix(text: Datum, kind: Affix, operand: str, fold: bool) -> Datum:
    """Whether texts start with, end with or equal `operand`, which is folded already (FX-4-11 to -16)."""
    test = _AFFIXES[kind]
    return on_distinct(lambda array: test(_folded(array) if fold else array, operand), text)


_AFFIXES: Final[dict[Affix, Callable[[Datum, str], Datum]]] = {
    Affix.PREFIX: lambda array, operand: pc.starts_with(array, operand),
    Affix.SUFFIX: lambda array, operand: pc.ends_with(array, operand),
    Affix.WHOLE: pc.equal,
}


def _folded(array: pa.Array) -> pa.Array:
    if pc.all(pc.string_is_ascii(array)).as_py() is not False:
        return pc.ascii_lower(array)
    lower = pc.utf8_lower(array)
    differing = np.asarray(pc.fill_null(pc.match_substring_regex(array, _other_in_arrow()), False))
    if not differing.any():
        return lower
    texts = [folded(text) for text in array.filter(pa.array(differing)).to_pylist()]
    return pc.replace_with_mask(lower, pa.array(differing), pa.array(texts, pa.string()))


@cache
def _other_in_arrow() -> str:
    """A character class of those that Arrow lower-cases by a newer version of Unicode than Python."""
    characters = [chr(code) for code in range(128, 0x110000) if not 0xD800 <= code < 0xE000]
    lower = pc.utf8_lower(pa.array(characters)).to_pylist()
    found = [f"\\x{{{ord(one):x}}}" for one, other in zip(characters, lower, strict=True) if folded(one) != other]
    return f"[{''.join(found)}]" if found else "[^\\x{0}-\\x{10FFFF}]"
