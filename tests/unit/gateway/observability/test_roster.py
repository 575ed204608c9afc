"""The roster of connections: numbers ascend, pages begin where they should, and those that left are forgotten."""

from __future__ import annotations

from itertools import islice

from gateway.observability.roster import Roster


def test_items_come_in_the_order_of_their_numbers() -> None:
    roster = Roster[str]()
    assert [roster.add(name, at) for at, name in enumerate("abc")] == [1, 2, 3]
    assert roster.add("b", 9) == 2
    assert roster.remove("b") == 2
    assert roster.remove("b") is None
    assert [entry.item for entry in roster.after(0)] == ["a", "c"]
    assert [entry.item for entry in roster.after(1)] == ["c"]
    assert roster.get(2) is None
    assert (roster.number("c"), len(roster)) == (3, 2)
    assert roster.add("b", 1) == 4


def test_a_roster_keeps_nothing_of_those_that_left() -> None:
    roster = Roster[int]()
    for number in range(10_000):
        roster.add(number, 0)
        if number >= 10:
            roster.remove(number)
    assert len(roster) == 10
    assert len(roster._numbers) <= 1100
    assert [entry.item for entry in islice(roster.after(3), 3)] == [3, 4, 5]
