"""All objects are scanned only if many of the connections and links that have ended stay in memory."""

from __future__ import annotations

from gateway.held.garbage import LEAST, EndedCollector


class Counts:
    """`held` of those that ended are no garbage."""

    def __init__(self) -> None:
        self.present = self.circles = self.held = self.scans = 0
        self.collector = EndedCollector(
            lambda: self.present + self.circles + self.held, lambda: self.present, self.scan
        )

    def scan(self) -> None:
        self.scans += 1
        self.circles = 0

    def after(self, circles: int = 0, held: int = 0) -> int:
        """How often all objects have been scanned after so many more have ended and stay."""
        self.circles += circles
        self.held += held
        self.collector.look()
        return self.scans


def test_a_few_that_stay_are_not_worth_a_scan() -> None:
    counts = Counts()
    assert [counts.after(LEAST - 1), counts.after(1), counts.after(1), counts.after(LEAST)] == [0, 1, 1, 2]


def test_the_more_there_is_to_scan_the_rarer_it_is() -> None:
    counts = Counts()
    counts.present = 10 * LEAST
    assert [counts.after(9 * LEAST), counts.after(LEAST), counts.after(9 * LEAST)] == [0, 1, 1]


def test_what_a_scan_cannot_free_causes_no_other_one() -> None:
    counts = Counts()
    assert [counts.after(held=LEAST), counts.after(), counts.after(LEAST - 1), counts.after(1)] == [1, 1, 1, 2]


def test_what_was_held_and_is_freed_is_not_held_any_more() -> None:
    counts = Counts()
    assert [counts.after(held=LEAST), counts.after(held=-LEAST), counts.after(LEAST)] == [1, 1, 2]
