"""Files of the archive: by address and date, bounded in bytes and number, and exactly what is reported."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridges.spark.archive.contents.decode import FILE, with_record
from bridges.spark.archive.manifest.commits import FilePart
from bridges.spark.archive.write.files import DatedFiles, FileLimits, FileReport, folder_of
from bridges.spark.archive.write.targets import StagingTarget
from bridges.spark.columns.rows import EventRow, record_batch
from tests.support.amqp.messages import message

DAY = 86_400_000
BODY = message(b"body")


def rows(events: Iterable[tuple[int, int, int]], body: bytes = BODY) -> pa.RecordBatch:
    """Rows of partition, offset and time."""
    return with_record(record_batch(EventRow(*event, None, body) for event in events))


def written(folder: Path, batches: Iterable[pa.RecordBatch], limits: FileLimits = FileLimits()) -> list[FileReport]:  # noqa: B008
    files = DatedFiles(StagingTarget(folder), limits)
    for batch in batches:
        files.add("orders/eu", batch)
    return sorted(files.close(), key=lambda each: (str(each.date), each.partitions[0].first))


def test_what_is_reported_is_what_is_there(tmp_path: Path) -> None:
    batches = [
        rows([(1, 5, DAY), (1, 7, DAY + 9), (0, 3, 2 * DAY - 1), (0, 4, 2 * DAY)]),
        rows([(1, 8, DAY - 1), (0, 9, -1)]),
    ]
    found = written(tmp_path, batches)
    assert [(each.date, each.partitions, each.first_ms, each.last_ms) for each in found] == [
        (date(1969, 12, 31), (FilePart(0, 1, 9, 9),), -1, -1),
        (date(1970, 1, 1), (FilePart(1, 1, 8, 8),), DAY - 1, DAY - 1),
        (date(1970, 1, 2), (FilePart(0, 1, 3, 3), FilePart(1, 2, 5, 7)), DAY, 2 * DAY - 1),
        (date(1970, 1, 3), (FilePart(0, 1, 4, 4),), 2 * DAY, 2 * DAY),
    ]
    for each in found:
        path = tmp_path / each.name
        assert (path.stat().st_size, hashlib.sha256(path.read_bytes()).hexdigest()) == (each.bytes, each.sha256)
        table = pq.read_table(path)
        assert table.schema.equals(FILE)
        assert (len(table), table["timestamp"].null_count) == (each.rows, 0)


def test_files_are_for_readers(tmp_path: Path) -> None:
    """Microseconds with statistics, offsets too; sorted by partition and offset; pages with checksums."""
    (found,) = written(tmp_path, [rows([(1, 5, 7), (0, 3, 8)]), rows([(1, 6, 9), (0, 4, 8)])])
    file = pq.ParquetFile(tmp_path / found.name, page_checksum_verification=True)
    columns = {file.metadata.schema.names[index]: index for index in range(3)}
    group = file.metadata.row_group(0)
    assert list(columns) == ["partition", "offset", "timestamp"]
    assert "TIMESTAMP" in str(file.metadata.schema.column(2).logical_type).upper()
    assert "micro" in str(file.metadata.schema.column(2).logical_type).lower()
    assert [group.column(index).statistics.has_min_max for index in columns.values()] == [True] * 3
    assert [str(each.column_index) for each in group.sorting_columns] == ["0", "1"]
    assert file.read(["partition", "offset"]).to_pylist() == [
        {"partition": partition, "offset": offset} for partition, offset in ((0, 3), (0, 4), (1, 5), (1, 6))
    ]


def test_times_that_producers_invent_do_not_make_a_file_each(tmp_path: Path) -> None:
    times = [(each, each * 7919 % 20_000 * DAY) for each in range(3000)]
    (found,) = written(tmp_path, [rows((0, *each) for each in times[part : part + 1000]) for part in (0, 1000, 2000)])
    assert (found.date, found.rows, folder_of(found)) == (
        None, 3000, "address=orders%2Feu/date=__HIVE_DEFAULT_PARTITION__",
    )  # fmt: skip
    assert pq.read_table(tmp_path / found.name)["timestamp"].null_count == 0


def test_dates_that_are_not_rare_have_their_files(tmp_path: Path) -> None:
    usual = [(0, offset, 5 * DAY + offset) for offset in range(900)]
    strange = [(0, 900 + number, (100 + number) * DAY) for number in range(20)]
    found = written(tmp_path, [rows(usual + strange)])
    assert [(each.date, each.rows) for each in found] == [(date(1970, 1, 6), 900), (None, 20)]
    history = written(tmp_path, [rows((0, each, each // 100 * DAY) for each in range(3000))])
    assert len(history) == 30
    assert None not in {each.date for each in history}
    small = [(0, each, 5 * DAY if each % 2 else (each + 100) * DAY) for each in range(18)]
    assert [(each.date, each.rows) for each in written(tmp_path, [rows(small)])] == [(date(1970, 1, 6), 9), (None, 9)]
    few = written(tmp_path, [rows([(0, 0, 0), (0, 1, 400 * DAY)])])
    assert len(few) == 2


def test_files_and_row_groups_are_bounded_in_bytes(tmp_path: Path) -> None:
    body = message(bytes(100_000))
    noise = [message(hashlib.shake_256(b"%d" % number).digest(100_000)) for number in range(40)]
    limits = FileLimits(file=1 << 20, row_group=400_000)
    found = written(tmp_path, [rows([(0, number, 0)], each) for number, each in enumerate(noise)], limits)
    assert len(found) <= 2 * sum(each.bytes for each in found) / limits.file
    assert max(each.bytes for each in found) <= limits.file
    assert sum(each.rows for each in found) == 40
    groups = [pq.ParquetFile(tmp_path / each.name).metadata.num_row_groups for each in found]
    assert min(groups[:-1]) > 1
    (small,) = written(tmp_path, [rows([(0, number, 0)], body) for number in range(40)], limits)
    assert small.bytes < 1 << 20  # a bound of what is written, not of what was read


def test_a_batch_that_is_larger_than_a_file_is_divided_among_files(tmp_path: Path) -> None:
    """In order, and with what is said of each file: `--file-size` may be less than a task decodes at a time."""
    batch = record_batch(
        EventRow(partition, number, 0, None, message(hashlib.shake_256(b"%d" % number).digest(1000)))
        for partition in (0, 1)
        for number in range(1000)
    )
    limits = FileLimits(file=256 << 10)
    found = written(tmp_path, [with_record(batch)], limits)
    assert len(found) > 7
    assert max(each.bytes for each in found) <= limits.file
    seen = []
    for each in found:
        table = pq.read_table(tmp_path / each.name, columns=["partition", "offset"])
        offsets = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
        ends = [(number, [at for of, at in offsets if of == number]) for number in sorted({of for of, _ in offsets})]
        assert each.partitions == tuple(FilePart(number, len(at), at[0], at[-1]) for number, at in ends)
        seen += offsets
    assert sorted(seen) == [(partition, number) for partition in (0, 1) for number in range(1000)]


def test_a_late_row_does_not_keep_the_rows_that_came_with_it(tmp_path: Path) -> None:
    files, before = DatedFiles(StagingTarget(tmp_path), FileLimits(row_group=1 << 20)), pa.total_allocated_bytes()
    body = message(bytes(20_000))
    for number in range(40):
        events = [(0, 100 * number + each, DAY) for each in range(100)]
        files.add("a", rows([*events, (1, number, 5)], body))
    assert pa.total_allocated_bytes() - before < 10 << 20  # of 160 MB
    assert sum(each.rows for each in files.close()) == 40 * 101


def test_a_folder_that_is_gone_is_not_made_again(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        written(tmp_path / "gone", [rows([(0, 0, 0)])])
    assert not (tmp_path / "gone").exists()


def test_what_a_failed_task_began_is_removed(tmp_path: Path) -> None:
    files = DatedFiles(StagingTarget(tmp_path), FileLimits(row_group=1))
    files.add("a", rows([(0, 0, 0)]))
    assert list(tmp_path.iterdir())
    files.abandon()
    assert not list(tmp_path.iterdir())
