"""The project's copy of the conformance matrix is complete and read row by row."""

from __future__ import annotations

from collections import Counter

from tests.support.project.matrix import parse, read_rows

# docs/conformance.md section 9
COUNTS = {"ES": 152, "FX": 72, "CE": 123, "AT": 35, "RA": 56, "X": 10, "CORE": 13, "EH": 13, "WS": 3}


def test_every_row_of_section_9_is_there() -> None:
    rows = read_rows()
    assert Counter(row.family for row in rows.values()) == COUNTS
    assert Counter(row.level for row in rows.values()) == {"MUST": 120, "SHOULD": 29, "MAY": 52, "inf": 276}


def test_only_rows_without_a_check_are_definitional() -> None:
    rows = read_rows()
    assert rows["ES-1-8"].definitional
    assert rows["FX-1-2"].definitional
    assert not rows["CE-3.2.1-7"].definitional, "its check is about an absent filter"


def test_escaped_bars_do_not_end_a_cell() -> None:
    (row,) = parse(r"| X-99 | MAY | GW | one \| two | none | |")
    assert row.requirement == r"one \| two"
    assert row.definitional
