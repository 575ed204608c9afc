"""Which offsets an archive takes next, and what it says of gaps, losses and topics made anew."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridges.spark.archive.archiving.bounded_source import SnapshotOrigin
from bridges.spark.archive.contents.ranges import (
    LOST,
    Log,
    Range,
    Refused,
    check_identities,
    next_ranges,
    problems,
)


def log(bounds: dict[int, tuple[int, int]], identity: str | None = "id", first: dict[int, int] | None = None) -> Log:
    return Log("a", identity, bounds, first or {})


def ends(*ranges: Range) -> dict[tuple[str, int], Range]:
    return {(each.address, each.partition): each for each in ranges}


def spans(ranges: list[Range]) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in ranges]


def test_a_new_log_is_read_from_its_start_and_the_next_step_goes_on() -> None:
    first = next_ranges({}, [log({0: (5, 9), 1: (0, 3)})], 100)
    assert spans(first) == [(0, 5, 9), (1, 0, 3)]
    assert spans(next_ranges(ends(*first), [log({0: (5, 12), 1: (0, 3)})], 100)) == [(0, 9, 12)]
    assert next_ranges(ends(*first), [log({0: (5, 9), 1: (0, 3)})], 100) == []


def test_latest_is_resolved_once_and_a_partition_that_appears_is_read_whole() -> None:
    first = next_ranges({}, [log({0: (0, 9)}, first={0: 9})], 100)
    assert spans(first) == [(0, 9, 9)]
    again = next_ranges(ends(*first), [log({0: (0, 11), 1: (0, 4)}, first={0: 11, 1: 4})], 100)
    assert spans(again) == [(0, 9, 11), (1, 0, 4)]


def test_lost_offsets_end_the_job_or_are_noted() -> None:
    before = ends(Range("a", 0, 0, 5, 5, "id"))
    with pytest.raises(Refused, match="a, partition 0: offsets 5 to 7 are gone"):
        next_ranges(before, [log({0: (8, 10)})], 100)
    found = next_ranges(before, [log({0: (8, 10)})], 100, fail_on_loss=False)
    assert [(each.start, each.end, each.gap_reason) for each in found] == [(5, 8, LOST), (8, 10, "")]


@pytest.mark.parametrize(
    ("now", "said"),
    [
        (log({0: (0, 9)}, identity="new"), "recreated"),
        (log({0: (0, 3)}), "ends at offset 3, but the archive goes to 5"),
    ],
)
def test_another_log_under_the_old_name_is_not_taken_for_it(now: Log, said: str) -> None:
    with pytest.raises(Refused, match=said):
        next_ranges(ends(Range("a", 0, 0, 5, 5, "id")), [now], 100)


@given(st.dictionaries(st.integers(0, 5), st.tuples(st.integers(0, 50), st.integers(0, 200))), st.integers(1, 60))
def test_steps_cover_everything_once_within_the_limit(sizes: dict[int, tuple[int, int]], limit: int) -> None:
    bounds = {partition: (low, low + size) for partition, (low, size) in sizes.items()}
    known: dict[tuple[str, int], Range] = {}
    written: list[Range] = []
    for _ in range(2000):
        step = next_ranges(known, [log(bounds)], limit)
        if not step:
            break
        assert sum(each.end - each.start for each in step) <= limit
        written += step
        known |= ends(*step)
    assert problems(written) == []
    assert {partition: (low, known["a", partition].end) for partition, (low, _) in bounds.items()} == bounds


def test_gaps_overlaps_and_changes_are_told() -> None:
    reported = problems([Range("a", 0, 0, 5), Range("a", 0, 7, 9), Range("a", 0, 8, 9), Range("a", 0, 9, 10, 1, "new")])
    assert reported == [
        "a, partition 0: offsets 5 to 6 are in no commit",
        "a, partition 0: offsets 8 to 8 are in two commits",
        "a, partition 0: the log changed from None to new",
    ]


class Growing:
    """A log that has more whenever it is looked at, and another partition from the second time on."""

    def __init__(self) -> None:
        self.looks = 0

    def logs(self) -> list[Log]:
        self.looks += 1
        bounds = {0: (0, 10 * self.looks), **({1: (0, 5)} if self.looks > 1 else {})}
        return [Log("a", "id", bounds)]

    def identities(self, addresses: Any) -> Any:
        return dict.fromkeys(addresses, "id")

    def source(self) -> Any:
        return "source"

    def holding(self, gaps: Any) -> Any:
        return gaps


def test_a_log_that_grows_has_an_end_for_who_goes_to_its_end() -> None:
    origin = SnapshotOrigin(Growing())
    (first,) = next_ranges({}, origin.logs(), 100)
    assert (first.partition, first.start, first.end) == (0, 0, 10)
    assert next_ranges({("a", 0): first}, origin.logs(), 100) == []
    later = SnapshotOrigin(Growing())
    list(later.logs())
    assert [dict(log.bounds) for log in later.logs()] == [{0: (0, 10)}]
    assert later.source() == "source"  # type: ignore[comparison-overlap]
    assert later.identities(["a"]) == {"a": "id"}


def test_a_log_is_still_the_one_that_its_ranges_were_planned_for() -> None:
    """One that tells no identity, now or before, counts as the same."""
    old, unnamed = Range("a", 0, 0, 5, identity="old"), Range("b", 0, 0, 5)
    for identities in ({"a": "old", "b": "new"}, {"a": None}, {}):
        check_identities([old, unnamed], identities)
    with pytest.raises(Refused, match=r"^a: the topic was recreated while it was read \(its id was old, now it"):
        check_identities([unnamed, old], {"a": "new", "b": "new"})
