"""Compares samples of an archive's rows with the topic's records: key, value, headers and timestamp."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from bridges.kafka.admin.records import RecordReads, StoredRecord
from bridges.spark.archive.contents.file_layout import restored
from bridges.spark.archive.contents.messages import record_times
from bridges.spark.archive.manifest.commits import JsonObject
from bridges.spark.archive.storage.paths import StoragePath, readable, unreadable

_STRETCHES: Final = 16
"""Number of places in a partition that are sampled."""
_FAR: Final = 1000
"""Number of offsets without a chosen row that are read and dropped in less time than another request takes."""
_COLUMNS: Final = ("partition", "offset", "timestamp", "key", "body", "application_properties", "record")
FileSpan = tuple[int, int, int]
"""The number of a file, and its offsets [start, end)."""


def file_spans(runs: Sequence[NDArray[np.int64]], low: int, sample: int) -> list[FileSpan]:
    """The rows to compare, `sample` of those from `low` on in stretches from the first to the last, or all if fewer.

    `runs` has the runs of offsets with a row, by file: arrays of starts and ends. Rows are counted, because offsets
    without a row, and files of very different sizes, would leave out most of a short partition.
    """
    left = [np.maximum(each, low) for each in runs]
    counts = [int((ends - starts).sum()) for starts, ends in left]
    found, before = [], 0
    stretches = _stretches(sum(counts), sample)
    for number in sorted(range(len(left)), key=lambda number: int(left[number][0, 0])):
        for start, end in stretches:
            first, last = max(start - before, 0), min(end - before, counts[number]) - 1
            if first <= last:
                found.append((number, _offset(left[number], first), _offset(left[number], last) + 1))
        before += counts[number]
    return found


def _stretches(rows: int, sample: int) -> list[tuple[int, int]]:
    """The numbers of the rows in the sample, [start, end): evenly spread, with the first and the last row."""
    taken = min(rows, sample)
    count = min(_STRETCHES, taken)
    cuts = [taken * number // count for number in range(count + 1)] if count else []
    skips = [(rows - taken) * number // max(count - 1, 1) for number in range(count)]
    return [(skip + start, skip + end) for skip, start, end in zip(skips, cuts, cuts[1:], strict=False)]


def _offset(runs: NDArray[np.int64], row: int) -> int:
    """The offset of a row, counted from the first of these runs."""
    ends = np.cumsum(runs[1] - runs[0])
    run = int(np.searchsorted(ends, row, "right"))
    return int(runs[1, run] - ends[run]) + row


def differences(
    records: RecordReads, topic: str, partition: int, path: StoragePath, start: int, end: int
) -> tuple[int, list[str]]:
    """The number of rows of a file that were compared, of these offsets, and their differences from the topic."""
    rows = _rows(path, partition, start, end)
    compared, found = 0, []
    for first, last in _near(sorted(rows)):
        for record in records.read(topic, partition, first, last + 1, last - first + 1):
            row = rows.get(record.offset)
            if row is None or row["record"] is None:
                continue
            compared += 1
            if different := _differences(row, record):
                text = f"the {', '.join(different)} of the event at offset {record.offset} differs from the topic's"
                found.append(text)
    return compared, found


def _near(offsets: Sequence[int]) -> Iterator[tuple[int, int]]:
    """First and last offset of each group that one request reads."""
    if offsets:
        breaks = [at for at in range(1, len(offsets)) if offsets[at] - offsets[at - 1] > _FAR]
        for start, end in zip([0, *breaks], [*breaks, len(offsets)], strict=True):
            yield offsets[start], offsets[end - 1]


def _rows(path: StoragePath, partition: int, start: int, end: int) -> dict[int, JsonObject]:
    try:
        chosen = [("partition", "=", partition), ("offset", ">=", start), ("offset", "<", end)]
        table = pq.read_table(readable(path), columns=list(_COLUMNS), filters=chosen, partitioning=None)
        found = table.combine_chunks()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(path, error) from None
    rows: dict[int, JsonObject] = {}
    for batch in map(restored, found.to_batches()):
        times = record_times(batch.column("timestamp"), batch.column("record")).to_pylist()
        parts = batch.drop_columns(["timestamp"]).to_pylist()
        rows |= {each["offset"]: {**each, "time": time} for each, time in zip(parts, times, strict=True)}
    return rows


def _differences(row: JsonObject, stored: StoredRecord) -> list[str]:
    record = row["record"]
    value = row["body"] if record["value_in_body"] else record["value"]
    headers = [(each["key"], each["value"]) for each in record["headers"] or ()]
    pairs = {"key": (row["key"], stored.key), "value": (value, stored.value), "headers": (headers, stored.headers)}
    found = [name for name, (archived, in_topic) in pairs.items() if archived != in_topic]
    same_time = row["time"] is None or row["time"] == stored.timestamp_ms
    return found if same_time else [*found, "timestamp"]
