"""The rows of docs/conformance.md: the requirements of the specifications, by id."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

MATRIX = Path(__file__).resolve().parents[3] / "docs" / "conformance.md"
FAMILIES = ("CORE", "ES", "FX", "CE", "AT", "RA", "X", "EH", "WS")
ROW = re.compile(rf"^\| ((?:{'|'.join(FAMILIES)})-[^ |]+) \|")
CELLS = re.compile(r"(?<!\\)\|")
DEFINITIONAL = re.compile(r"none( \(.*\))?")


class Row(NamedTuple):
    """One requirement: `definitional` rows name things and have no check (column "none")."""

    id: str
    family: str
    level: str
    requirement: str
    definitional: bool


def read_rows(path: Path = MATRIX) -> dict[str, Row]:
    """Return every row in the order of the document."""
    return {row.id: row for row in parse(path.read_text())}


def parse(text: str) -> Iterator[Row]:
    """Yield the rows of a text with tables `ID | Lvl | Binds | Requirement | Check | Reading`."""
    for line in text.splitlines():
        if found := ROW.match(line):
            cells = [cell.strip() for cell in CELLS.split(line)[1:]]
            definitional = DEFINITIONAL.fullmatch(cells[4]) is not None
            yield Row(found[1], found[1].split("-")[0], cells[1], cells[3], definitional)
