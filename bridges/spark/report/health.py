"""The state of an archive according to its manifest: files and their sizes, lost offsets, and lag (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bridges.spark.archive.contents.ranges import LOST
from bridges.spark.report.page.format import Row

if TYPE_CHECKING:
    from bridges.spark.archive.manifest.commits import Commit

SMALL: Final = 1 << 20
"""Size in bytes below which a file counts as small."""


@dataclass
class AddressHealth:
    """The files and offsets of one address, in all commits."""

    address: str
    partitions: int = 0
    files: int = 0
    small_files: int = 0
    bytes: int = 0
    events: int = 0
    lost_offsets: int = 0
    """Number of offsets that were deleted from the log before they were archived."""
    behind: int | None = None
    """Events between the archive's end and the end of the log that its readers saw last; `None` if none did."""


def archive_health(commits: Iterable[Commit], lag: Sequence[Row] = ()) -> list[AddressHealth]:
    """The health of each address; `lag` is the table of that name, with the ends of the logs as readers saw them."""
    found: dict[str, AddressHealth] = {}
    ends: dict[tuple[str, int], int] = {}
    for commit in commits:
        for file in commit.files:
            place = found.setdefault(file.address, AddressHealth(file.address))
            place.files, place.bytes = place.files + 1, place.bytes + file.bytes
            place.small_files += file.bytes < SMALL
        for each in commit.ranges:
            place = found.setdefault(each.address, AddressHealth(each.address))
            place.events += each.rows
            place.lost_offsets += each.end - each.start if each.gap_reason == LOST else 0
            ends[each.address, each.partition] = max(each.end, ends.get((each.address, each.partition), 0))
        for gone in commit.removed:
            found.setdefault(gone.address, AddressHealth(gone.address)).events -= gone.rows
    logs = _log_ends(lag)
    for address, place in found.items():
        own = {partition: end for (name, partition), end in ends.items() if name == address}
        place.partitions = len(own)
        seen = logs.get(address)
        if seen is not None:
            place.behind = sum(max(end - own.get(partition, 0), 0) for partition, end in seen.items())
    return sorted(found.values(), key=lambda place: (-place.bytes, place.address))


def _log_ends(lag: Sequence[Row]) -> Mapping[str, Mapping[int, int]]:
    """The last ends of logs by address and by topic, since an archive's address may be either."""
    found: dict[str, dict[int, int]] = {}
    for row in lag:
        for name in {row["address"], row["to_topic"]} - {None}:
            ends = found.setdefault(name, {})
            ends[row["partition"]] = max(row["end"], ends.get(row["partition"], 0))
    return found
