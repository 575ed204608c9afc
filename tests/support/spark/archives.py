"""A handmade archive: events and journal rows with known sums, written as the archive job writes them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bridges.spark.archive.decode import archived
from bridges.spark.archive.ranges import Range
from bridges.spark.archive.store import Archive
from bridges.spark.columns.rows import EventRow, record_batch
from tests.support.amqp.messages import message


def written(path: Path, logs: Mapping[str, Sequence[EventRow]]) -> Archive:
    """One commit with these events by address; offsets of a partition follow each other."""
    archive = Archive(path)
    path.mkdir(exist_ok=True)
    with archive.writing():
        staging = archive.stage(1)
        ranges = []
        for address, events in logs.items():
            rows = archived(record_batch(events), pa.array([address] * len(events), pa.string()))
            for date in set(rows.column("date").to_pylist()):
                name = "__HIVE_DEFAULT_PARTITION__" if date is None else date
                folder = staging / f"address={address.replace('/', '%2F')}" / f"date={name}"
                folder.mkdir(parents=True)
                of_date = rows.column("date").is_null() if date is None else pc.equal(rows.column("date"), date)
                part = pa.Table.from_batches([rows]).filter(of_date)
                pq.write_table(part.drop_columns(["address", "date"]), folder / "part.parquet")
            for partition in sorted({event.partition for event in events}):
                offsets = [event.offset for event in events if event.partition == partition]
                ranges.append(Range(address, partition, min(offsets), max(offsets) + 1, len(offsets), "id"))
        archive.commit(1, staging, ranges, archive.staged(staging, 1))
    return archive


def journal(rows: Iterable[Mapping[str, Any]]) -> list[EventRow]:
    """Rows of a journal as events of its topic."""
    return [
        EventRow(0, number, row["to_ms"], b"process", message(json.dumps(row).encode()))
        for number, row in enumerate(rows)
    ]
