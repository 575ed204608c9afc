"""The manifest of an archive is a file format: its keys stay what they are, whatever the code calls them."""

from __future__ import annotations

import json
from pathlib import Path

from bridges.spark.archive.contents.ranges import LOST, Range
from bridges.spark.archive.store import MANIFEST, Archive


def test_a_commit_is_read_as_it_was_written(tmp_path: Path) -> None:
    archive = Archive(tmp_path)
    ranges = [Range("a", 0, 0, 5, identity="id", gap_reason=LOST), Range("a", 0, 5, 9, rows=4, identity="id")]
    with archive.writing():
        commit = archive.commit(1, archive.stage(1), ranges, [])
    assert archive.commits() == [commit]
    assert commit.ranges == tuple(ranges)
    manifest = json.loads((tmp_path / MANIFEST / "00000001.json").read_text())
    assert set(manifest) >= {"format", "number", "staging", "ranges", "files", "unknown"}
    assert manifest["ranges"][0] == {
        "address": "a", "partition": 0, "start": 0, "end": 5, "rows": 0, "identity": "id", "fate": "lost"
    }  # fmt: skip
    assert manifest["ranges"][1]["fate"] == ""
