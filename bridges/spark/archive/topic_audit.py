"""Compares an archive with its topics: every offset without a row, and a sample of the bytes.

Offsets are read from all files, as runs. For each gap between the runs, Kafka is checked for an event there; samples of
rows, spread over each partition, are compared with the topic's records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridges.kafka.admin.offsets import Offsets
from bridges.kafka.admin.records import RecordReads
from bridges.kafka.admin.span_reader import Span
from bridges.spark.archive.contents.audit import partition_name, read_offsets
from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.manifest.commits import File
from bridges.spark.archive.removals import Removals
from bridges.spark.archive.row_samples import differences, file_spans
from bridges.spark.archive.store import Archive
from bridges.spark.errors import PipelineError
from bridges.spark.kafka_settings import RenewedClient
from gateway.errors import AmqpError

Spans = Sequence[tuple[int, int]]
"""Offsets, [start, end)."""


class TopicVerdict(NamedTuple):
    """The result for one partition."""

    address: str
    partition: int
    rows: int
    compared: int
    """Number of rows that were compared with the topic's record."""
    behind: int
    """Number of offsets of the topic after the archive's end."""
    problems: tuple[str, ...]


@dataclass
class _Partition:
    """The archive's contents for a partition."""

    spans: list[tuple[int, int]]
    """The ranges of the commits, without lost ones; adjacent ones are joined."""
    identity: str | None
    rows: int
    removed: bool
    """Whether rows were removed on purpose: an event in a gap is not a loss if it is one of them."""
    files: list[File]
    runs: list[NDArray[np.int64]]
    """Starts and ends of the runs of offsets with a row, by file."""


def compare_topics(
    archive: Archive, settings: Mapping[str, str], topics: Mapping[str, str], sample: int
) -> Iterator[TopicVerdict]:
    """Compare with topics (topic: address), `sample` records of each partition. Raises `PipelineError`."""
    found, removals = _partitions(archive, set(topics.values()))
    offsets = RenewedClient(settings, Offsets).current()
    for topic, address in topics.items():
        own = {partition: each for (name, partition), each in found.items() if name == address}
        if not own:
            known = ", ".join(sorted({name for name, _ in archive.readable().ends})) or "none"
            raise PipelineError(f"the archive has no address {address} (it has: {known})")
        try:
            with RecordReads(settings) as records:
                yield from _compared(archive, offsets, records, topic, address, own, removals, sample)
        except AmqpError as error:
            raise PipelineError(error.description) from None


def _partitions(archive: Archive, addresses: set[str]) -> tuple[dict[tuple[str, int], _Partition], Removals]:
    history, removals = archive.readable(), Removals()
    found: dict[tuple[str, int], _Partition] = {}
    for commit in history.commits():
        removals.add(commit)
        for each in commit.ranges:
            if each.address in addresses:
                _extend(found, each)
        for gone in commit.removed:
            if (gone.address, gone.partition) in found:
                found[gone.address, gone.partition].removed = True
    for _, file in history.live_files():
        if file.address in addresses:
            _add_file(archive, found, file)
    return found, removals


def _extend(found: dict[tuple[str, int], _Partition], of: Range) -> None:
    own = found.setdefault((of.address, of.partition), _Partition([], None, 0, False, [], []))
    own.identity = of.identity
    if of.gap_reason:
        return
    if own.spans and own.spans[-1][1] == of.start:
        own.spans[-1] = own.spans[-1][0], of.end
    else:
        own.spans.append((of.start, of.end))


def _add_file(archive: Archive, found: dict[tuple[str, int], _Partition], file: File) -> None:
    table = read_offsets(archive.path / file.path)
    partitions, offsets = (table.column(name).to_numpy() for name in ("partition", "offset"))
    for number in np.unique(partitions):
        own = found.get((file.address, int(number)))
        if own is None:
            raise PipelineError(f"{archive.path / file.path} has rows of a partition that the manifest does not have")
        mine = np.sort(offsets[partitions == number])
        own.rows += len(mine)
        own.files.append(file)
        breaks = np.flatnonzero(np.diff(mine) > 1)
        starts, ends = np.append(mine[0], mine[breaks + 1]), np.append(mine[breaks], mine[-1]) + 1
        own.runs.append(np.stack([starts, ends]))


def _compared(
    archive: Archive, offsets: Offsets, records: RecordReads, topic: str, address: str, own: dict[int, _Partition],
    removals: Removals, sample: int,
) -> Iterator[TopicVerdict]:  # fmt: skip
    there = offsets.topic(topic)
    bounds = offsets.bounds(there)
    ends = {number: (each.low, each.high) for number, each in bounds.items()}
    missing = _losses(offsets, topic, address, own, _missing(offsets, topic, own, ends), removals)
    for partition, held in sorted(own.items()):
        end = held.spans[-1][1] if held.spans else 0
        high = bounds[partition].high if partition in bounds else 0
        problems, compared = [], 0
        if held.identity and there.identity and held.identity != there.identity:
            problems = ["the topic was recreated, there is nothing to compare with"]
        elif high < end:
            problems = [f"the topic ends at offset {high}, but the archive goes to {end}"]
        else:
            problems = missing.get(partition, [])
            compared, different = _sampled(archive, records, topic, partition, held, bounds[partition].low, sample)
            problems = problems + different
        name = partition_name((address, partition))
        lines = tuple(f"{name}: {text}" for text in problems)
        yield TopicVerdict(address, partition, held.rows, compared, max(high - end, 0), lines)


def _missing(
    offsets: Offsets, topic: str, own: Mapping[int, _Partition], bounds: Mapping[int, tuple[int, int]]
) -> list[Span]:
    """The gaps in which the topic has an event: partition, first offset, end (exclusive)."""
    return offsets.holding(topic, [
        (partition, max(start, bounds[partition][0]), end)
        for partition, held in own.items()
        if partition in bounds
        for start, end in gaps(held.spans, held.runs)
        if end > bounds[partition][0]
    ])  # fmt: skip


def _losses(
    offsets: Offsets, topic: str, address: str, own: Mapping[int, _Partition], held: Sequence[Span],
    removals: Removals,
) -> dict[int, list[str]]:  # fmt: skip
    """The events that the archive lacks, by partition; `held` are the gaps in which the topic has an event."""
    found: dict[int, list[str]] = {}
    shortened = _not_removed(offsets, topic, address, [span for span in held if own[span[0]].removed], removals)
    for partition, start, end in held:
        lost: tuple[int, int] | None = start, end - 1
        if removed := own[partition].removed:
            lost = shortened.get((partition, start, end))
        if lost is not None:
            why = "which were not removed from the archive on purpose" if removed else "which the archive lacks"
            text = f"the topic has events at offsets {lost[0]} to {lost[1]}, {why}"
            found.setdefault(partition, []).append(text)
    return found


def _not_removed(
    offsets: Offsets, topic: str, address: str, gaps: Sequence[Span], removals: Removals
) -> dict[Span, tuple[int, int]]:
    """The first and last offset of the events that were not removed on purpose, by gap, where there are any."""
    lost: dict[Span, tuple[int, int]] = {}
    for gap, records in offsets.records(topic, gaps):
        for each in records:
            if not removals.covers(address, each.key(), each.timestamp()[1]):
                lost[gap] = lost.get(gap, (each.offset(),))[0], each.offset()
    return lost


def gaps(spans: Spans, runs: Sequence[NDArray[np.int64]]) -> Spans:
    """The offsets within `spans` (in order) that are in no run, as spans; runs are arrays of starts and ends."""
    found = []
    joined = np.concatenate(runs, axis=1) if runs else np.empty((2, 0), np.int64)
    starts, ends = joined[:, np.argsort(joined[0], kind="stable")]
    reached = np.maximum.accumulate(ends) if len(ends) else ends
    for start, end in spans:
        first, last = np.searchsorted(reached, start, "right"), np.searchsorted(starts, end, "left")
        edges = [start, *np.stack([starts[first:last], reached[first:last]], axis=1).ravel().tolist(), end]
        pairs = zip(edges[::2], edges[1::2], strict=True)
        found += [(int(low), int(high)) for low, high in pairs if low < high]
    return found


def _sampled(
    archive: Archive, records: RecordReads, topic: str, partition: int, held: _Partition, low: int, sample: int
) -> tuple[int, list[str]]:
    """The number of rows that were compared, and their differences from the topic's records."""
    compared, found = 0, []
    for number, start, end in file_spans(held.runs, low, sample):
        path = archive.path / held.files[number].path
        count, different = differences(records, topic, partition, path, start, end)
        compared += count
        found += different
    return compared, found
