"""The offsets of replayed events: a map from archive to new topic, by which groups are moved.

The events of a partition are in the topic in the same order, so the n-th selected row is the n-th record of the
partition with the same number. The map has a run for each sequence in which both offsets ascend by one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridges.kafka.admin.offsets import Offsets
from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.consume.range_reader import TopicRange, read_ranges
from bridges.spark.archive.read import ArchiveSelection
from bridges.spark.archive.storage.paths import write_whole
from bridges.spark.archive.store import Archive
from bridges.spark.archive.write.records import record_columns
from bridges.spark.errors import PipelineError
from bridges.spark.replay.job import check
from bridges.spark.replay.task import selected_rows
from gateway.errors import AmqpError
from gateway.plural import counted

Numbers = NDArray[np.int64]
_COLUMNS: Final = ("partition", "offset")


@dataclass(frozen=True)
class OffsetMap:
    """The offsets of one partition in the archive, ascending, and those of the same events in the topic."""

    old: Numbers
    new: Numbers
    begin: int
    """The low offset of the topic's partition, for groups positioned before the first event."""

    def moved(self, position: int) -> int:
        """The position of a group in the topic: the offset of the first event that it had not read."""
        rank = int(np.searchsorted(self.old, position))
        if rank < len(self.new):
            return int(self.new[rank])
        return int(self.new[-1]) + 1 if len(self.new) else self.begin

    def runs(self) -> Iterator[tuple[int, int, int]]:
        """First offset in the archive, first offset in the topic, and number of events of each run."""
        breaks = np.flatnonzero((np.diff(self.old) != 1) | (np.diff(self.new) != 1)) + 1
        edges = [0, *breaks.tolist(), len(self.old)]
        for start, end in pairwise(edges):
            if start < end:
                yield int(self.old[start]), int(self.new[start]), end - start


def offset_maps(
    archive: Archive, selection: ArchiveSelection, settings: ClientSettings, topic: str
) -> dict[int, OffsetMap]:
    """The offset maps of a complete replay, also of empty partitions; reads the topic once. Raises `PipelineError`."""
    old = _archived(archive, selection)
    try:
        queries = Offsets(settings)
        found = queries.topic(topic)
        if old and max(old) >= found.partitions:
            raise PipelineError(
                f"topic {topic} has fewer partitions ({found.partitions}) than the archive: events are mixed, and "
                f"the positions of groups cannot be determined"
            )
        bounds = {number: (each.low, each.high) for number, each in queries.bounds(found).items()}
        new = _in_topic(settings, topic, {number: bounds[number] for number in old})
    except AmqpError as error:
        raise PipelineError(error.description) from None
    for number, offsets in old.items():
        if len(new[number]) != len(offsets):
            raise PipelineError(
                f"topic {topic}, partition {number} has {counted(len(new[number]), 'event')}, and "
                f"{counted(len(offsets), 'was', 'were')} replayed: positions can be determined only in a topic that "
                f"has the events of one complete replay and no others"
            )
    replayed = {number: OffsetMap(offsets, new[number], bounds[number][0]) for number, offsets in old.items()}
    return {**_empty(bounds), **replayed}


def _empty(bounds: Mapping[int, tuple[int, int]]) -> dict[int, OffsetMap]:
    """The maps of partitions without records: without a position, a group may leave out the first new events."""
    none = np.empty(0, np.int64)
    return {number: OffsetMap(none, none, low) for number, (low, high) in bounds.items() if low == high}


def _archived(archive: Archive, selection: ArchiveSelection) -> dict[int, Numbers]:
    parts: dict[int, list[Numbers]] = {}
    for batch in selected_rows(archive.path, check(archive, selection), selection, {}, _COLUMNS):
        partitions, offsets = batch.column("partition").to_numpy(), batch.column("offset").to_numpy()
        for number in np.unique(partitions).tolist():
            parts.setdefault(number, []).append(offsets[partitions == number])
    return {number: np.concatenate(own) for number, own in sorted(parts.items())}


def _in_topic(settings: ClientSettings, topic: str, bounds: Mapping[int, tuple[int, int]]) -> dict[int, Numbers]:
    parts: dict[int, list[Numbers]] = {number: [np.empty(0, np.int64)] for number in bounds}
    ranges = [TopicRange(topic, number, low, high) for number, (low, high) in bounds.items() if low < high]
    for found in read_ranges(settings, ranges) if ranges else ():
        for (_, number), records in found.items():
            offsets = record_columns(records, len(records)).offsets
            parts[number].append(offsets[offsets < bounds[number][1]])
    return {number: np.concatenate(own) for number, own in parts.items()}


def moved_groups(
    maps: Mapping[int, OffsetMap], groups: Mapping[str, Mapping[int, int]]
) -> dict[str, dict[int, int]]:
    """The positions of groups in the new topic, without partitions whose events are not of this replay."""
    return {
        name: {number: maps[number].moved(at) for number, at in positions.items() if number in maps}
        for name, positions in groups.items()
    }


def write_map(path: Path, maps: Mapping[int, OffsetMap]) -> None:
    """Write the runs as lines of JSON: partition, old and new offset, number of events. Raises `OSError`."""
    write_whole(path, "".join(_lines(maps)))


def _lines(maps: Mapping[int, OffsetMap]) -> Sequence[str]:
    return [
        json.dumps({"partition": number, "old": old, "new": new, "count": count}) + "\n"
        for number, each in maps.items()
        for old, new, count in each.runs()
    ]
