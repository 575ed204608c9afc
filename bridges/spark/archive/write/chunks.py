"""Divides the ranges of a commit among tasks: about one per core of Spark, of about equal size in bytes. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from bridges.spark.archive.contents.ranges import Range

MIN_OFFSETS: Final = 256
"""Number of offsets that justify a separate task."""
MIN_BYTES: Final = 1 << 20
"""Number of bytes that justify a separate task, even with fewer offsets."""
UNKNOWN_BYTES: Final = 1000.0
"""Assumed size of a record, in bytes, at an address without known sizes."""
Chunk = tuple[Range, ...]
"""The ranges of one task, of different partitions."""


def chunks(ranges: Sequence[Range], tasks: int, record_bytes: Mapping[str, float]) -> list[Chunk]:
    """The ranges in at most `tasks` parts of about equal size in bytes; at most `tasks` - 1 ranges are split.

    `record_bytes` has the average number of bytes per offset, by address, where it is known.
    """
    weights = [(each.end - each.start) * record_bytes.get(each.address, UNKNOWN_BYTES) for each in ranges]
    total, offsets = sum(weights), sum(each.end - each.start for each in ranges)
    count = min(tasks, max(offsets // MIN_OFFSETS, int(total) // MIN_BYTES, 1), max(offsets, 1))
    found: list[list[Range]] = [[] for _ in range(count)]
    before = 0.0
    for each, weight in zip(ranges, weights, strict=True):
        for number, start, end in _cut(each, before, weight, total / count, count):
            if start < end:
                found[number].append(replace(each, start=start, end=end))
        before += weight
    return [tuple(each) for each in found if each]


def _cut(whole: Range, before: float, weight: float, share: float, count: int) -> Iterator[tuple[int, int, int]]:
    """The parts of a range: chunk number, start and end. `before` is the total weight of the preceding ranges."""
    number, start = min(int(before / share), count - 1), whole.start
    while number < count - 1 and (number + 1) * share < before + weight:
        part = ((number + 1) * share - before) / weight
        end = whole.start + round(part * (whole.end - whole.start))
        yield number, start, end
        number, start = number + 1, end
    yield number, start, whole.end
