"""Handmade archives: events and journal rows with known sums, written as the archive job writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bridges.spark.archive.contents.decode import archived
from bridges.spark.archive.contents.file_layout import stored
from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.contents.token import Token
from bridges.spark.archive.storage.s3 import ObjectPath
from bridges.spark.archive.store import Archive, Commit, File, digest
from bridges.spark.archive.write.files import DatedFiles, FileLimits
from bridges.spark.columns.rows import EventRow, record_batch
from tests.support.amqp.messages import message


def written(path: Path, logs: Mapping[str, Sequence[EventRow]], *, old: bool = False) -> Archive:
    """One commit with these events by address; offsets of a partition follow each other.

    `old`: in the layout of version 2 of the manifest, with all columns of docs/columns.md.
    """
    archive = Archive(path)
    path.mkdir(exist_ok=True)
    with archive.writing():
        append(archive, logs, old=old)
    return archive


def append(archive: Archive, logs: Mapping[str, Sequence[EventRow]], *, old: bool = False) -> None:
    """One more commit, within `writing`."""
    number = archive.history().number + 1
    staging = archive.stage(number)
    assert isinstance(staging, Path)
    ranges = []
    for address, events in logs.items():
        rows = archived(record_batch(events), pa.array([address] * len(events), pa.string()))
        for date in set(rows.column("date").to_pylist()):
            name = "__HIVE_DEFAULT_PARTITION__" if date is None else date
            folder = staging / f"address={address.replace('/', '%2F')}" / f"date={name}"
            folder.mkdir(parents=True)
            of_date = rows.column("date").is_null() if date is None else pc.equal(rows.column("date"), date)
            part = rows.filter(of_date).drop_columns(["address", "date"])
            kept = as_version_2(part) if old else stored(part)
            pq.write_table(pa.Table.from_batches([kept]), folder / "part.parquet")
        for partition in sorted({event.partition for event in events}):
            offsets = [event.offset for event in events if event.partition == partition]
            ranges.append(Range(address, partition, min(offsets), max(offsets) + 1, len(offsets), "id"))
    archive.commit(number, staging, ranges, staged(staging, number))


def staged(staging: Path, number: int) -> list[tuple[Path | None, File]]:
    """The files that were written, with the places they will have."""
    found: list[tuple[Path | None, File]] = []
    for index, source in enumerate(sorted(staging.glob("address=*/date=*/*.parquet"))):
        place = source.parent.relative_to(staging) / f"{number:08}-{index:04}.parquet"
        found.append((source, File(str(place), source.stat().st_size, digest(source, sync=True))))
    return found


def as_version_2(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows as version 2 wrote them: without `record.timestamp_ms`."""
    place, record = rows.schema.get_field_index("record"), rows.column("record")
    names = [each.name for each in record.type if each.name != "timestamp_ms"]
    parts = [record.field(name) for name in names]
    older = pa.StructArray.from_arrays(parts, fields=[record.type.field(name) for name in names], mask=record.is_null())
    return rows.set_column(place, "record", older)


def journal(rows: Iterable[Mapping[str, Any]]) -> list[EventRow]:
    """Rows of a journal as events of its topic."""
    return [
        EventRow(0, number, row["to_ms"], b"process", message(json.dumps(row).encode()))
        for number, row in enumerate(rows)
    ]


# -- in an object store


def events(first: int, last: int) -> list[EventRow]:
    return [EventRow(0, number, number * 1000, b"k", message(b"v%d" % number)) for number in range(first, last)]


def object_files(archive: Archive, first: int, last: int) -> tuple[str, list[tuple[None, File]]]:
    """The files of a commit, as a task writes them; nothing is committed."""
    staging = archive.stage(archive.history().number + 1)
    target = archive.writer.target(staging)
    Token.left(target.token)
    files = DatedFiles(target, FileLimits())
    rows = archived(record_batch(events(first, last)), pa.array(["o"] * (last - first), pa.string()))
    files.add("o", stored(rows.drop_columns(["address", "date"])))
    made = [File(each.name, each.bytes, each.sha256, each.partitions) for each in files.close()]
    return staging.name, [(None, file) for file in made]


def commit(archive: Archive, first: int, last: int) -> Commit:
    """Archive these offsets."""
    name, files = object_files(archive, first, last)
    return added(archive, name, files, first, last)


def added(archive: Archive, name: str, files: Sequence[tuple[None, File]], first: int, last: int) -> Commit:
    ranges = (Range("o", 0, first, last, last - first, "id"),)
    return archive.add(Commit(0, name, ranges, tuple(file for _, file in files)), [None] * len(files))


def objects(archive: Archive) -> list[str]:
    assert isinstance(archive.path, ObjectPath)
    return sorted(path.relative_to(archive.path) for path in archive.path.glob("address=*/date=*/*.parquet"))
