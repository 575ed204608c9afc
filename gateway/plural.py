"""The number of a noun in the output of commands and in errors (pure)."""

from __future__ import annotations


def plural(number: int, one: str, many: str = "") -> str:
    """The word for this number of things: `one` for 1, else `many`, by default `one` with an s."""
    return one if number == 1 else many or f"{one}s"


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its word: `1 event`, `2 events`."""
    return f"{number} {plural(number, one, many)}"
