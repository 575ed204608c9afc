"""The state of an archive by its manifest."""

from __future__ import annotations

from bridges.spark.archive.contents.ranges import LOST, Range
from bridges.spark.archive.manifest.commits import Commit, File, RemovedRows
from bridges.spark.report.health import archive_health


def file(address: str, size: int) -> File:
    return File(f"address={address}/date=2026-11-21/{size}.parquet", size, "")


def test_files_gaps_and_lag() -> None:
    commits = [
        Commit(1, "", (Range("a", 0, 0, 10, 10), Range("a", 1, 0, 5, 0, gap_reason=LOST)), (file("a", 100),)),
        Commit(2, "", (Range("a", 1, 5, 20, 12), Range("b", 0, 0, 3, 3)), (file("a", 2 << 20), file("b", 7))),
        Commit(3, "", (), (), removed=(RemovedRows("a", 0, 4),)),
    ]
    lag = [
        {"address": "events/a", "to_topic": "a", "partition": 0, "end": 15},
        {"address": "events/a", "to_topic": "a", "partition": 0, "end": 12},
        {"address": "events/a", "to_topic": "a", "partition": 1, "end": 2},
    ]
    a, b = archive_health(commits, lag)
    assert (a.address, a.partitions, a.files, a.small_files, a.bytes) == ("a", 2, 2, 1, (2 << 20) + 100)
    assert (a.events, a.lost_offsets, a.behind) == (18, 5, 5)
    assert (b.address, b.files, b.events, b.lost_offsets, b.behind) == ("b", 1, 3, 0, None)


def test_nothing_archived() -> None:
    assert archive_health([]) == []
