"""Which files a read by time opens, by the dates of their folders and the times in the manifest."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from bridges.spark.archive.contents.dates import DateRange, date_of, dates_of, overlaps
from bridges.spark.archive.manifest.commits import File
from bridges.spark.archive.read import ArchiveSelection

NOON = datetime(2026, 11, 21, 12, tzinfo=UTC)
MS = round(NOON.timestamp() * 1000)
HOUR = timedelta(hours=1)


def path(day: str) -> str:
    return f"address=a/date={day}/00000001-0000.parquet"


def test_a_day_more_on_each_side() -> None:
    found = dates_of(NOON, NOON + HOUR)
    assert found == (date(2026, 11, 20), date(2026, 11, 22))
    held = [day for day in range(18, 26) if found.may_hold(path(f"2026-11-{day}"))]
    assert held == [20, 21, 22]


def test_times_of_other_zones() -> None:
    late = datetime(2026, 11, 21, 23, tzinfo=timezone(-12 * HOUR))
    assert dates_of(late, None).first == date(2026, 11, 21)


@pytest.mark.parametrize("moment", [datetime.min, datetime.max])
def test_the_ends_of_the_calendar(moment: datetime) -> None:
    assert None in dates_of(moment.replace(tzinfo=UTC), moment.replace(tzinfo=UTC))


def test_files_without_a_date_are_always_opened() -> None:
    for name in ("__HIVE_DEFAULT_PARTITION__", "no date"):
        assert date_of(path(name)) is None
        assert DateRange(date(2026, 1, 1), date(2026, 1, 1)).may_hold(path(name))


@pytest.mark.parametrize(
    ("earliest", "latest", "expected"),
    [
        (MS, MS, True), (MS - 5, MS, True), (MS - 5, MS - 1, False), (MS + 3_600_001, MS + 3_600_009, False),
        (MS - 9, MS + 9_000_000, True), (None, None, True), (None, MS - 1, False), (MS + 9_000_000, None, False),
    ],
)  # fmt: skip
def test_times_in_the_manifest(earliest: int | None, latest: int | None, expected: bool) -> None:
    assert overlaps(NOON, NOON + HOUR, earliest, latest) is expected
    selection = ArchiveSelection(since=NOON, until=NOON + HOUR)
    assert selection.may_hold(File(path("2026-11-21"), 1, "", (), earliest, latest)) is expected
    assert selection.may_hold(File(path("__HIVE_DEFAULT_PARTITION__"), 1, "", (), earliest, latest))


def test_parts_of_a_millisecond_lose_nothing() -> None:
    assert overlaps(NOON + timedelta(microseconds=400), None, MS, MS)
    assert overlaps(None, NOON + timedelta(microseconds=400), MS + 1, MS + 1)


def test_without_times_everything_is_selected() -> None:
    assert ArchiveSelection().may_hold(File(path("2026-11-21"), 1, "", (), 0, 0))
    assert dates_of(None, None) == DateRange()
