"""The last refusals are bounded by their number and by their texts."""

from __future__ import annotations

from gateway.observability.refusals import LONGEST, MOST, RecentRefusal, RecentRefusals


def test_few_refusals_are_kept_and_little_of_each() -> None:
    """Texts of peers may have 128 kB: 200 of those took 25 MB and more."""
    kept = RecentRefusals()
    for number in range(MOST + 5):
        kept.add(RecentRefusal(number, "link", "edge", "ann", "1", "send", "a" * 100_000, "amqp:x", "d" * 100_000))
    kept.add(RecentRefusal(0, "login", "edge", "ann", "1", None, None, "amqp:x", "short"))
    (last, newest), *others = kept.newest()
    assert (last, len(others)) == (MOST + 6, MOST - 1)
    assert (newest.address, newest.description) == (None, "short")
    assert {(len(each.address or ""), len(each.description)) for _, each in others} == {(LONGEST, LONGEST)}
