"""LIKE without regular expressions (FX-5-7): a pattern is cut at its `%`, and each part is searched for once.

Leftmost matches of the parts in turn are a match whenever there is one, so nothing is ever tried again: the time is
linear in the text. A part without `_` between its characters is found by `str.find`; any other by Shift-And, a few
operations on an integer of as many bits as the part has characters, for each character of the text.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Final, NamedTuple

Chunk = tuple[int, str]
"""Characters without `_` between, and where in their part they begin."""

_ANY: Final = "%"
_ONE: Final = "_"
_WINDOW: Final = 4096
"""Characters looked at in one go: the rest of a long text is not copied for each part."""


class Part(NamedTuple):
    """What is between two `%`: `length` characters, of which those in `chunks` are given."""

    length: int
    chunks: tuple[Chunk, ...]


def parts(pattern: str, escape: str | None = None) -> list[Part] | None:
    """What is around the `%` of a pattern, so one more than it has of them; `None`: it ends with its escape."""
    found: list[list[str | None]] = [[]]
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            literal = next(characters, None)
            if literal is None:
                return None
            found[-1].append(literal)
        elif character == _ANY:
            found.append([])
        else:
            found[-1].append(None if character == _ONE else character)
    return [_part(characters) for characters in found]


def compiled(pattern: str, escape: str | None = None) -> Callable[[str], bool] | None:
    """Whether a text is like `pattern`; `None` where nothing can be: an escape of no or of many characters, or last."""
    if escape is not None and len(escape) != 1:
        return None
    found = parts(pattern, escape)
    if found is None:
        return None
    first, last = found[0], found[-1]
    if len(found) == 1:
        return lambda text: len(text) == first.length and _stands(first, text, 0)
    middle = [_finder(part) for part in found[1:-1] if part.length]
    return lambda text: _like(text, first, middle, last)


Finder = Callable[[str, int, int], int]
"""Where the leftmost occurrence of a part in `text[start:end]` ends, -1 where there is none."""


def _like(text: str, first: Part, middle: list[Finder], last: Part) -> bool:
    position, end = first.length, len(text) - last.length
    if position > end or not _stands(first, text, 0) or not _stands(last, text, end):
        return False
    for find in middle:
        position = find(text, position, end)
        if position < 0:
            return False
    return True


def _part(characters: list[str | None]) -> Part:
    chunks, offset = [], 0
    for blank, run in groupby(characters, lambda character: character is None):
        text = list(run)
        if not blank:
            chunks.append((offset, "".join(character for character in text if character is not None)))
        offset += len(text)
    return Part(len(characters), tuple(chunks))


def _stands(part: Part, text: str, start: int) -> bool:
    return all(text.startswith(chunk, start + offset) for offset, chunk in part.chunks)


def _finder(part: Part) -> Finder:
    if not part.chunks:
        return lambda text, start, end: start + part.length if start + part.length <= end else -1
    if len(part.chunks) == 1:
        return _chunk_finder(part, *part.chunks[0])
    return _masked_finder(part)


def _chunk_finder(part: Part, offset: int, chunk: str) -> Finder:
    after = part.length - offset

    def find(text: str, start: int, end: int) -> int:
        found = text.find(chunk, start + offset, end - after + len(chunk))
        return -1 if found < 0 else found + after

    return find


def _masked_finder(part: Part) -> Finder:
    """Shift-And: bit i of the state is set where the last i + 1 characters are the part's first i + 1."""
    complete = 1 << (part.length - 1)
    given = {offset + index: character for offset, chunk in part.chunks for index, character in enumerate(chunk)}
    anything = sum(1 << index for index in range(part.length) if index not in given)
    masks = dict.fromkeys(given.values(), anything)
    for index, character in given.items():
        masks[character] |= 1 << index
    offset, longest = max(part.chunks, key=lambda chunk: len(chunk[1]))

    def find(text: str, start: int, end: int) -> int:
        hint = text.find(longest, start + offset, end)
        if hint < 0:
            return -1
        state = 0
        for base in range(hint - offset, end, _WINDOW):
            for position, character in enumerate(text[base : min(base + _WINDOW, end)], base + 1):
                state = (state << 1 | 1) & masks.get(character, anything)
                if state & complete:
                    return position
        return -1

    return find
