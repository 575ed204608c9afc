"""The output of the quickstart: plain text for 80 columns, in colour only on a terminal and without NO_COLOR."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Sequence
from typing import Final, TextIO

WIDTH: Final = 80
_INDENT: Final = "   "
_BOLD, _DIM, _RED, _GREEN = "1", "2", "31", "32"


class TerminalOutput:
    """Writes paragraphs, tables and results to one stream."""

    def __init__(self, stream: TextIO) -> None:
        self._stream: Final = stream
        plain = "NO_COLOR" in os.environ or os.environ.get("TERM") == "dumb"
        self._colour: Final = stream.isatty() and not plain

    def title(self, text: str) -> None:
        """The title."""
        self._line(self._styled(_BOLD, text))

    def heading(self, text: str) -> None:
        """The start of a chapter."""
        self._line()
        self._line(self._styled(_BOLD, text))
        self._line(self._styled(_DIM, "-" * len(text)))

    def say(self, text: str) -> None:
        """A paragraph."""
        for line in textwrap.wrap(text, WIDTH - len(_INDENT), break_on_hyphens=False):
            self._line(_INDENT + line)

    def step(self, who: str, where: str, what: str) -> None:
        """A step: who sends what to whom."""
        head = f"{who + ' -> ' + where:<34} "
        self._line()
        self._paragraph(_INDENT + self._styled(_BOLD, head), len(_INDENT + head), what)

    def ok(self, text: str) -> None:
        """A successful check."""
        self._verdict(_GREEN, "ok", text)

    def failed(self, text: str) -> None:
        """A failed check."""
        self._verdict(_RED, "FAILED", text)

    def table(self, rows: Sequence[Sequence[str]], headers: Sequence[str] = ()) -> None:
        """A table with columns as wide as needed; texts that do not fit are cut in the middle."""
        everything = [*([headers] if headers else []), *rows]
        widths = [max(map(len, column)) for column in zip(*everything, strict=True)]
        room = WIDTH - len(_INDENT) * 2 - 2 * (len(widths) - 1)
        while sum(widths) > room:
            widths[widths.index(max(widths))] -= 1
        for number, row in enumerate(everything):
            cells = (f"{cut(cell, width):<{width}}" for cell, width in zip(row, widths, strict=True))
            line = "  ".join(cells).rstrip()
            self._line(_INDENT * 2 + (self._styled(_DIM, line) if headers and not number else line))

    def code(self, text: str) -> None:
        """Lines to copy, unchanged."""
        for line in text.rstrip("\n").split("\n"):
            self._line(_INDENT * 2 + line if line else "")

    def gap(self) -> None:
        """An empty line."""
        self._line()

    def _verdict(self, colour: str, word: str, text: str) -> None:
        self._paragraph(f"{_INDENT}{self._styled(colour, word)}  ", len(_INDENT) + len(word) + 2, text)

    def _paragraph(self, start: str, length: int, text: str) -> None:
        lines = textwrap.wrap(text, WIDTH - length, break_on_hyphens=False) or [""]
        self._line(start + lines[0])
        for line in lines[1:]:
            self._line(" " * length + line)

    def _styled(self, style: str, text: str) -> str:
        return f"\x1b[{style}m{text}\x1b[0m" if self._colour else text

    def _line(self, text: str = "") -> None:
        self._stream.write(text.rstrip() + "\n")
        self._stream.flush()


def cut(text: str, width: int) -> str:
    """`text` in at most `width` characters, its start and end kept."""
    if len(text) <= width:
        return text
    tail = (width - 3) // 3
    return text[: width - 3 - tail] + "..." + text[len(text) - tail :]
