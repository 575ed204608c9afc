"""What ended connections and links leave is freed after as many ends as there are connections and links."""

from __future__ import annotations

from gateway.held.garbage import LEAST, EndedCollector


class Counts:
    def __init__(self) -> None:
        self.ended = self.present = self.scans = 0
        self.collector = EndedCollector(lambda: self.ended, lambda: self.present, self.scan)

    def scan(self) -> None:
        self.scans += 1

    def after(self, ends: int) -> int:
        """How often all objects have been scanned after so many more ends."""
        self.ended += ends
        self.collector.look()
        return self.scans


def test_a_few_ends_are_not_worth_a_scan() -> None:
    counts = Counts()
    assert [counts.after(LEAST - 1), counts.after(1), counts.after(1), counts.after(LEAST)] == [0, 1, 1, 2]


def test_the_more_there_is_to_scan_the_rarer_it_is() -> None:
    counts = Counts()
    counts.present = 10 * LEAST
    assert [counts.after(9 * LEAST), counts.after(LEAST), counts.after(9 * LEAST)] == [0, 1, 1]
