"""Each comparison of a task's report with its ranges and files finds its difference, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridges.spark.archive.contents.audit import Count, row_differences, with_row_counts
from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.contents.token import Token
from bridges.spark.archive.manifest.commits import FilePart
from bridges.spark.archive.write.check import check_apart, file_differences, row_counts, unknown_rows, unreported
from bridges.spark.archive.write.files import FileLimits, FileReport
from bridges.spark.archive.write.targets import StagingTarget
from bridges.spark.archive.write.task import RangeReport, TaskReport, WriteTask
from bridges.spark.errors import PipelineError

OFFSETS = [5, 6, 9, 2, 3]
"""Of partition 0 the first three, of partition 1 the others; a row group each."""


@pytest.fixture
def report(tmp_path: Path) -> TaskReport:
    """Of a task that has written one file of two row groups."""
    path = tmp_path / "x.parquet"
    with pq.ParquetWriter(path, pa.schema([("partition", pa.int32()), ("offset", pa.int64())])) as writer:
        for number, offsets in ((0, OFFSETS[:3]), (1, OFFSETS[3:])):
            writer.write_table(
                pa.table([pa.array([number] * len(offsets), pa.int32()), pa.array(offsets)], ["partition", "offset"])
            )
    parts = FilePart(0, 3, 5, 9), FilePart(1, 2, 2, 3)
    file = FileReport(path.name, "a", None, path.stat().st_size, "", 5, None, None, parts)
    ranges = RangeReport("a", 0, 5, 10, 3, 5, 9, ((7, 9),)), RangeReport("a", 1, 0, 4, 2, 2, 3)
    return TaskReport(ranges, (file,))


def changed(report: TaskReport, **fields: object) -> TaskReport:
    return report._replace(files=(report.files[0]._replace(**fields),))


def test_what_is_as_reported_has_no_difference(report: TaskReport, tmp_path: Path) -> None:
    assert file_differences([report], tmp_path) == []
    assert file_differences([report._replace(files=(), ranges=())], tmp_path) == []
    empty = report._replace(files=(), ranges=(RangeReport("a", 0, 5, 10),))
    assert file_differences([empty], tmp_path) == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"bytes": 1}, "a file of 5 events and 1 bytes has 5 events and "),
        ({"rows": 4}, "a file of 4 events and "),
        ({"name": "y.parquet"}, " bytes is missing"),
        ({"partitions": (FilePart(0, 3, 5, 10), FilePart(1, 2, 2, 3))}, " has offsets 2 to 9, not 2 to 10"),
        ({"partitions": (FilePart(0, 3, 5, 9), FilePart(1, 2, 1, 3))}, " has offsets 2 to 9, not 1 to 9"),
        ({"partitions": (FilePart(0, 3, 5, 8), FilePart(1, 2, 2, 3))}, " has offsets 2 to 9, not 2 to 8"),
        ({"partitions": (FilePart(0, 3, 5, 9), FilePart(1, 2, 3, 3))}, " has offsets 2 to 9, not 3 to 9"),
    ],
)
def test_a_file_that_differs_is_named(
    report: TaskReport, tmp_path: Path, fields: dict[str, object], said: str
) -> None:
    (found,) = file_differences([changed(report, **fields)], tmp_path)
    assert said in found
    assert found.startswith("a, a file of ")


def test_the_second_task_is_looked_at_too(report: TaskReport, tmp_path: Path) -> None:
    assert len(file_differences([report, changed(report, name="y.parquet")], tmp_path)) == 1


def test_a_file_that_is_none_is_named(report: TaskReport, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"no Parquet")
    (found,) = file_differences([report], tmp_path)
    assert "bytes cannot be read: " in found


def test_a_storage_that_fails_is_no_difference(report: TaskReport, tmp_path: Path) -> None:
    """It may answer again: the job waits for it."""
    failing = patch.object(Path, "stat", side_effect=OSError(5, "the object store answers 503"))
    with failing, pytest.raises(OSError, match="answers 503"):
        file_differences([report], tmp_path)


def _task(path: Path) -> WriteTask:
    """A task with a source that nobody asks."""
    return WriteTask(None, StagingTarget(path), Token(path, "text"), FileLimits())  # type: ignore[arg-type]


def test_a_task_tells_another_folder_from_a_storage_that_fails(tmp_path: Path) -> None:
    """The first ends the job, the second is an outage."""
    assert "No such file" in _task(tmp_path / "none").write([]).apart
    for error in (OSError(5, "the object store answers 503"), PermissionError(13, "ExpiredToken")):
        with (
            patch.object(Path, "read_bytes", side_effect=error),
            pytest.raises(PipelineError, match=f"^the worker of Spark at .*{error.strerror}"),
        ):
            _task(tmp_path).write([])


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ((FilePart(0, 2, 5, 9), FilePart(1, 2, 2, 3)), "a, partition 0: events read: 3, in files: 2"),
        ((FilePart(0, 4, 5, 9), FilePart(1, 2, 2, 3)), "a, partition 0: events read: 3, in files: 4"),
        ((FilePart(0, 3, 2, 9),), "a, partition 1: events read: 2, in files: 0"),
        (
            (FilePart(0, 3, 5, 9), FilePart(1, 2, 2, 3), FilePart(7, 1, 4, 4)),
            "a, partition 7: events read: 0, in files: 1",
        ),
    ],
)
def test_rows_that_were_read_are_in_files(
    report: TaskReport, tmp_path: Path, parts: tuple[FilePart, ...], said: str
) -> None:
    assert file_differences([changed(report, partitions=parts)], tmp_path) == [said]


def test_rows_of_a_partition_in_two_files_are_added(report: TaskReport, tmp_path: Path) -> None:
    twice = report._replace(files=report.files * 2)
    assert file_differences([twice], tmp_path) == [
        "a, partition 0: events read: 3, in files: 6", "a, partition 1: events read: 2, in files: 4",
    ]  # fmt: skip


@pytest.mark.parametrize("times", [0, 1, 2])
def test_each_range_is_reported_once(report: TaskReport, times: int) -> None:
    chunk = (Range("a", 0, 5, 10), Range("a", 1, 0, 4))
    assert unreported([chunk], [report]) == []
    said = [] if times == 1 else [f"a, partition 1: offsets 0 to 3 are reported {times} times"]
    ranges = (report.ranges[0], *[report.ranges[1]] * times)
    assert unreported([chunk], [TaskReport(ranges)]) == said


def test_a_range_is_requested_once_and_a_report_of_none_is_named(report: TaskReport) -> None:
    """Two topics at one address were two equal ranges, and one report counted for both."""
    one, other = Range("a", 0, 5, 10), Range("a", 1, 0, 4)
    assert unreported([(one, other), (other,)], [report]) == [
        "a, partition 1: offsets 0 to 3 are requested 2 times and reported 1 times"
    ]
    assert unreported([(one,)], [report]) == [
        "a, partition 1: offsets 0 to 3 are requested 0 times and reported 1 times"
    ]


def test_rows_that_two_ranges_of_a_partition_claim_are_added() -> None:
    counts = {("a", 0): Count(5, 5, 0, 4)}
    ranges = [Range("a", 0, 0, 5), Range("a", 0, 0, 3), Range("a", 0, 5, 9, gap_reason="lost")]
    assert row_differences(with_row_counts(ranges, counts), counts) == [
        "a, partition 0: 5 rows in the files, 10 in the manifest"
    ]
    halves = [Range("a", 0, 0, 2, 2), Range("a", 0, 2, 5, 3)]
    assert row_differences(halves, counts) == []


@pytest.mark.parametrize("field", ["address", "partition", "start", "end"])
def test_a_report_of_another_range_does_not_count(report: TaskReport, field: str) -> None:
    other = {"address": "b", "partition": 2, "start": 6, "end": 11}[field]
    wanted = replace(Range("a", 0, 5, 10), **{field: other})
    assert len(unreported([(wanted, Range("a", 1, 0, 4))], [report])) == 2


def test_counts_of_a_partition_are_joined_in_the_order_of_its_ranges() -> None:
    late = RangeReport("a", 0, 20, 30, 4, 22, 29, ((24, 28),))
    early = RangeReport("a", 0, 10, 20, 3, 11, 17, ((12, 14),))
    empty = RangeReport("a", 0, 30, 40)
    other = RangeReport("a", 1, 0, 2, 2, 0, 1)
    counts = row_counts([TaskReport((late, empty)), TaskReport((early, other))])
    assert counts == {
        ("a", 0): Count(7, 7, 11, 29, ((12, 14), (18, 22), (24, 28))),
        ("a", 1): Count(2, 2, 0, 1, ()),
    }
    follows = RangeReport("a", 0, 18, 20, 1, 18, 18)
    assert row_counts([TaskReport((early, follows))])["a", 0].gaps == ((12, 14),)


def test_a_worker_elsewhere_is_named_and_unknown_rows_are_added(tmp_path: Path) -> None:
    check_apart([TaskReport()], tmp_path)
    with pytest.raises(PipelineError, match=f"for the one at here, {tmp_path} is another folder or none"):
        check_apart([TaskReport(), TaskReport(apart="here")], tmp_path)
    assert unknown_rows([TaskReport(unknown=2), TaskReport(), TaskReport(unknown=3)]) == 5
