"""Reads by time open the files of these dates and of their neighbours; all others may be gone."""

from __future__ import annotations

import re
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.store import Archive
from bridges.spark.columns.rows import EventRow
from bridges.spark.errors import PipelineError
from bridges.spark.replay.job import count
from bridges.spark.report.job import ReportRequest, make
from bridges.spark.simulate import job
from tests.support.amqp.messages import message
from tests.support.spark import archives
from tests.support.spark.report import START, journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

DAYS = 8
HOUR = 3_600_000
BEGIN = datetime.fromtimestamp(START / 1000, UTC).replace(hour=0)
DAY = ArchiveSelection(("orders",), since=BEGIN + timedelta(days=4), until=BEGIN + timedelta(days=5))
"""The fifth of the archive's days."""
NO_DATE = "date=__HIVE_DEFAULT_PARTITION__"


def events() -> list[EventRow]:
    """An event every six hours, and one whose time is after the year 9999."""
    timed = [
        EventRow(0, number, round(BEGIN.timestamp() * 1000) + 6 * HOUR * number, None, message(b"x", app={"n": number}))
        for number in range(4 * DAYS)
    ]
    return [*timed, EventRow(0, 4 * DAYS, 1 << 61, None, message(b"late"))]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    logs = {"orders": events(), "scopegate.journal": archives.journal(journal())}
    return archives.written(tmp_path_factory.mktemp("dates") / "archive", logs)


@pytest.fixture
def thinned(tmp_path: Path) -> Archive:
    """The events without the files that a read of `DAY`, and a report of it and the day before, do not open."""
    archive = archives.written(tmp_path / "archive", {"orders": events()})
    for path in (archive.path / "address=orders").iterdir():
        if path.name not in opened(3) | opened(4):
            shutil.rmtree(path)
    return archive


def opened(day: int) -> set[str]:
    """The folders of a day, of the days before and after it and of the next midnight, and of rows without a date."""
    return {f"date={(BEGIN + timedelta(days=each)).date()}" for each in range(day - 1, day + 3)} | {NO_DATE}


def folders(frame: DataFrame) -> set[str]:
    """The folders of the files of a DataFrame."""
    return {Path(name).parent.name for name in frame.inputFiles()}


def test_one_day_opens_the_files_of_that_day(spark: SparkSession, whole: Archive) -> None:
    frame = read_archive(spark, whole, DAY)
    assert folders(frame) == opened(4)
    assert sorted(row.offset for row in frame.select("offset").collect()) == [16, 17, 18, 19]
    plan = frame._jdf.queryExecution().executedPlan().toString()
    found = re.search(r"PartitionFilters: \[(.*?)\], PushedFilters", plan)
    assert found is not None
    assert "date" in found[1]
    assert "timestamp" in plan.split("PushedFilters: ")[1]


@pytest.mark.parametrize(("since", "until", "rows"), [(7, None, 4), (None, 1, 4), (-400, 400, 32), (50, None, 0)])
def test_times_that_are_open_or_far_away(
    spark: SparkSession, whole: Archive, since: int | None, until: int | None, rows: int
) -> None:
    times = [None if each is None else BEGIN + timedelta(days=each) for each in (since, until)]
    assert read_archive(spark, whole, ArchiveSelection(("orders",), *times)).count() == rows


def test_the_ends_of_the_calendar_are_no_bounds(spark: SparkSession, whole: Archive) -> None:
    always = ArchiveSelection(("orders",), datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC))
    every = ArchiveSelection(("orders",))
    assert folders(read_archive(spark, whole, always)) == folders(read_archive(spark, whole, every))


def test_a_row_without_a_date_is_found(spark: SparkSession, whole: Archive) -> None:
    rows = read_archive(spark, whole, ArchiveSelection(("orders",), since_date=BEGIN.date() + timedelta(days=60)))
    assert [row.offset for row in rows.collect()] == [4 * DAYS]


def test_every_reader_skips_the_other_dates(spark: SparkSession, thinned: Archive, tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="is missing, the manifest has it"):
        read_archive(spark, thinned, ArchiveSelection(("orders",)))
    assert count(thinned, DAY) == 4
    (tmp_path / "tables").mkdir()
    page = make(spark, thinned, ReportRequest(DAY), tmp_path / "tables")
    assert "orders" in page
    messages = job.messages(spark, str(thinned.path / "address=orders"), ArchiveSelection((), DAY.since, DAY.until))
    assert messages.count() == 4


def test_a_journal_is_read_from_the_day_before(spark: SparkSession, whole: Archive) -> None:
    """Rows are archived after the time that they are about, it may be long after."""
    later, before = BEGIN + timedelta(days=1), BEGIN - timedelta(days=3)
    path = [str(whole.path)]
    assert folders(job.journal_rows(spark, path, later)) == {f"date={BEGIN.date()}"}
    assert job.journal_rows(spark, path, before).count() == job.journal_rows(spark, path).count() > 100
    assert job.journal_rows(spark, path, BEGIN + timedelta(days=3)).count() == 0
