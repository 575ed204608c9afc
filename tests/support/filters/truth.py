"""Reads tests/conformance/filters/truth.txt (expressions and their results on messages) for every back end."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Final, NamedTuple

from gateway.amqp.codec.codec import Described, Symbol
from gateway.cli.notation import load_filter, load_messages
from gateway.filters.parse.filter_set import read
from gateway.filters.predicate import Predicate, bind
from tests.support.project.parts import ROOT

FOLDER: Final = ROOT / "tests" / "conformance" / "filters"
LATEST: Final = "00000000000000000008"
"""What `@latest` is in the table."""
REFUSED: Final = "!"
_VERDICTS: Final[dict[str, bool | None]] = {"T": True, "F": False, "?": None}
_TYPES: Final = {
    "sql": "amqp:sql-filter",
    "selector": "apache.org:selector-filter:string",
    "event-sql": "amqp:event-streams-sql-filter",
}


class TruthCase(NamedTuple):
    """One line: `expected` has a verdict for each message, or nothing when the filter is refused."""

    line: int
    language: str
    text: str
    expected: dict[str, bool | None]
    rows: tuple[str, ...]
    """The rows of docs/conformance.md that the title of its section names."""

    @property
    def refused(self) -> bool:
        """Whether the link with this filter is refused."""
        return not self.expected

    @property
    def filter(self) -> Described:
        """The filter as it comes from a client: over the wire."""
        if self.language == "filter":
            received: Described = load_filter(self.text)
            return received
        return Described(Symbol(_TYPES[self.language]), "" if self.text == "<nothing>" else self.text)

    def __hash__(self) -> int:
        return self.line

    def predicate(self) -> Predicate:
        """What the front ends make of it, bound; raises AmqpError for what is refused."""
        return _predicate(self)

    def __str__(self) -> str:
        return f"{self.line}: {self.text}"


@cache
def _predicate(case: TruthCase) -> Predicate:
    """Several files ask for the same while they are collected."""
    return bind(read({Symbol("filter"): case.filter}).predicate, LATEST)


@cache
def messages() -> dict[str, bytes]:
    """The encoded messages by name."""
    return load_messages((FOLDER / "messages.yaml").read_text(encoding="utf-8"))


@cache
def cases() -> tuple[TruthCase, ...]:
    """All lines, in order."""
    found, language, names, rows = [], "", [], ()
    for number, line in enumerate((FOLDER / "truth.txt").read_text(encoding="utf-8").splitlines(), 1):
        if line.startswith("=="):
            language, title, columns = (part.strip() for part in line[2:].split("|"))
            names, rows = columns.split(), tuple(_rows(title))
        elif line and not line.startswith("#"):
            found.append(_case(number, language, names, rows, line))
    return tuple(found)


def _case(number: int, language: str, names: list[str], rows: tuple[str, ...], line: str) -> TruthCase:
    columns, _, text = line.partition("  ")
    if columns == REFUSED:
        return TruthCase(number, language, text, {}, rows)
    marks = columns.split(" ")
    assert len(marks) == len(names), f"truth.txt:{number}: {len(marks)} verdicts for {len(names)} messages"
    expected = {name: _VERDICTS[mark] for name, mark in zip(names, marks, strict=True)}
    return TruthCase(number, language, text, expected, rows)


def _rows(title: str) -> Iterator[str]:
    """`FX-5-12 to FX-5-14` is three of them."""
    for first, number, last in re.findall(r"(FX-[\d.]+)-(\d+)(?: to \1-(\d+))?", title):
        yield from (f"{first}-{row}" for row in range(int(number), int(last or number) + 1))
