"""LIKE without regular expressions (FX-5-7): a pattern is split at its `%`, and each part is searched for once.

Taking the leftmost match of each part in turn finds a match whenever there is one, so there is no backtracking: the
time is linear in the text. A part without `_` between its characters is found by `str.find`. For any other part,
integers are used as bit sets of positions or states: a few word operations per character of the text or the part.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby
from typing import Final, NamedTuple

from gateway.filters.predicate import Like, Literal
from gateway.filters.values import TEXTS

Chunk = tuple[int, str]
"""The offset of a run of literal characters in its part, and the run itself."""

_ANY: Final = "%"
_ONE: Final = "_"
_FIRST_WINDOW: Final = 64
_LAST_WINDOW: Final = 1 << 14
"""The number of characters searched at a time: small at first, for early matches, then doubled each time."""
_FEW: Final = 8
"""The maximum number of different characters in a part for which `_by_place` is the faster method."""


class LikePart(NamedTuple):
    """The part between two `%`: `length` characters, of which those in `chunks` are literal."""

    length: int
    chunks: tuple[Chunk, ...]


def parts(pattern: str, escape: str | None = None) -> list[LikePart] | None:
    """Split a pattern at each `%`, into one part more than it has `%`; None if it ends with its escape character."""
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


def constant(term: Like) -> list[LikePart] | None:
    """The parts of a constant pattern; `None` if the pattern is not constant, or is invalid and so matches nothing."""
    pattern, escape = term.pattern, term.escape
    if not isinstance(pattern, Literal) or type(pattern.value) not in TEXTS:
        return None
    if escape is None:
        return parts(pattern.value)
    if not isinstance(escape, Literal) or type(escape.value) not in TEXTS or len(escape.value) != 1:
        return None
    return parts(pattern.value, escape.value)


def compiled(pattern: str, escape: str | None = None) -> Callable[[str], bool] | None:
    """A test whether a text matches `pattern`; `None` if the escape is not one character, or ends the pattern."""
    if escape is not None and len(escape) != 1:
        return None
    found = parts(pattern, escape)
    if found is None:
        return None
    simple = _simple(found)
    if simple is not None:
        return simple
    first, last = found[0], found[-1]
    if len(found) == 1:
        return lambda text: len(text) == first.length and _matches_at(first, text, 0)
    middle = [_finder(part) for part in found[1:-1] if part.length]
    return lambda text: _like(text, first, middle, last)


def _literal(part: LikePart) -> str | None:
    """The characters of a part without `_`."""
    if not part.length:
        return ""
    return part.chunks[0][1] if part.chunks and len(part.chunks[0][1]) == part.length else None


def _simple(found: list[LikePart]) -> Callable[[str], bool] | None:
    """The frequent patterns, `text`, `begin%`, `%end` and `%within%`, in one operation each; None for any other."""
    match [_literal(part) for part in found]:
        case [str(whole)]:
            return lambda text: text == whole
        case [str(begin), ""]:
            return lambda text: text.startswith(begin)
        case ["", str(end)]:
            return lambda text: text.endswith(end)
        case ["", str(within), ""]:
            return lambda text: within in text
    return None


Finder = Callable[[str, int, int], int]
"""The end of the leftmost occurrence of a part in `text[start:end]`; -1 if there is none."""


def _like(text: str, first: LikePart, middle: list[Finder], last: LikePart) -> bool:
    position, end = first.length, len(text) - last.length
    if position > end or not _matches_at(first, text, 0) or not _matches_at(last, text, end):
        return False
    for find in middle:
        position = find(text, position, end)
        if position < 0:
            return False
    return True


def _part(characters: list[str | None]) -> LikePart:
    chunks, offset = [], 0
    for blank, run in groupby(characters, lambda character: character is None):
        text = list(run)
        if not blank:
            chunks.append((offset, "".join(character for character in text if character is not None)))
        offset += len(text)
    return LikePart(len(characters), tuple(chunks))


def _matches_at(part: LikePart, text: str, start: int) -> bool:
    return all(text.startswith(chunk, start + offset) for offset, chunk in part.chunks)


def _finder(part: LikePart) -> Finder:
    if not part.chunks:
        return lambda text, start, end: start + part.length if start + part.length <= end else -1
    if len(part.chunks) == 1:
        return _chunk_finder(part, *part.chunks[0])
    return _masked_finder(part)


def _chunk_finder(part: LikePart, offset: int, chunk: str) -> Finder:
    after = part.length - offset

    def find(text: str, start: int, end: int) -> int:
        found = text.find(chunk, start + offset, end - after + len(chunk))
        return -1 if found < 0 else found + after

    return find


def _masked_finder(part: LikePart) -> Finder:
    """Find parts with `_` between characters: the search begins where their longest chunk first occurs."""
    given = [(offset + index, character) for offset, chunk in part.chunks for index, character in enumerate(chunk)]
    offset, longest = max(part.chunks, key=lambda chunk: len(chunk[1]))
    by_state = _by_state(part.length, given)
    by_place = _by_place(part.length, given) if len({character for _, character in given}) <= _FEW else by_state

    def find(text: str, start: int, end: int) -> int:
        hint = text.find(longest, start + offset, end)
        if hint < 0:
            return -1
        return (by_place if text.isascii() else by_state)(text, hint - offset, end)

    return find


Given = list[tuple[int, str]]
"""The characters of a part that are not `_`, and their positions."""


def _by_place(length: int, given: Given) -> Finder:
    """Test all positions of a window at once: each is a bit, set while the characters match. For few characters."""
    marks = {character: _Marks(character) for _, character in given}

    def find(text: str, base: int, end: int) -> int:
        width = _FIRST_WINDOW
        while base + length <= end:
            places = found_in(text[base : min(base + width + length - 1, end)])
            if places:
                return base + (places & -places).bit_length() - 1 + length
            base += width
            width = min(2 * width, _LAST_WINDOW)
        return -1

    def found_in(window: str) -> int:
        backwards = window[::-1]
        known = {character: int(backwards.translate(mark), 2) for character, mark in marks.items()}
        found = (1 << (len(window) - length + 1)) - 1
        for index, character in given:
            found &= known[character] >> index
            if not found:
                break
        return found

    return find


def _by_state(length: int, given: Given) -> Finder:
    """Shift-And: bit i of the state is set where the last i + 1 characters are the part's first i + 1."""
    complete, blanks = 1 << (length - 1), (1 << length) - 1
    masks: dict[str, int] = {}
    for index, character in given:
        blanks ^= 1 << index
        masks[character] = masks.get(character, 0) | 1 << index
    masks = {character: mask | blanks for character, mask in masks.items()}

    def find(text: str, base: int, end: int) -> int:
        state = 0
        for start in range(base, end, _LAST_WINDOW):  # a slice of the rest would copy it for each part
            for position, character in enumerate(text[start : min(start + _LAST_WINDOW, end)], start + 1):
                state = (state << 1 | 1) & masks.get(character, blanks)
                if state & complete:
                    return position
        return -1

    return find


class _Marks(dict[int, str]):
    """For `str.translate`: "1" for one character, "0" for every other."""

    def __init__(self, character: str) -> None:
        super().__init__({ord(character): "1"})

    def __missing__(self, key: int) -> str:
        return "0"
