"""The manifest of an archive is a file format: its keys stay what they are, whatever the code calls them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bridges.spark.archive.contents.ranges import LOST, Range
from bridges.spark.archive.manifest.checkpoint import Checkpoint, from_json, to_json
from bridges.spark.archive.store import MANIFEST, Archive
from bridges.spark.archive.verification import verify
from bridges.spark.errors import PipelineError


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


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"number": "1"}, "number has to be int, not '1'"),
        ({"ranges": [{"address": "a", "partition": 0, "start": "0", "end": 5}]},
         "ranges[0].start has to be int, not '0'"),
        ({"ranges": [{"address": "a", "partition": 0, "start": 0}]}, "ranges[0].end is missing"),
        ({"ranges": {}}, "ranges has to be a list, not {}"),
        ({"ranges": ["a"]}, "ranges[0] has to be an object, not 'a'"),
        ({"files": [{"path": "a", "bytes": 1, "sha256": None}]}, "files[0].sha256 has to be str, not None"),
        ({"files": [{"path": "a", "bytes": 1, "sha256": "", "parts": [{"partition": 0, "rows": True}]}]},
         "files[0].parts[0].rows has to be int, not True"),
        ({"replaced": "abc"}, "replaced has to be a list, not 'abc'"),
        ({"note": {"due": 5}}, "note has to be an object with values of type str, not {'due': 5}"),
        ({"zzz": 1}, "zzz is unknown"),
        ({"format": 99}, "manifest of version 99, this scopegate reads version 3"),
        ([], "it has to be an object, not []"),
    ],
)  # fmt: skip
def test_a_manifest_of_another_shape_is_named_with_its_field(tmp_path: Path, changes: Any, said: str) -> None:
    """It was an error of Python about some `str`, or found where the value was used."""
    archive = Archive(tmp_path)
    with archive.writing():
        archive.commit(1, archive.stage(1), [Range("a", 0, 0, 5, rows=0, identity="id")], [])
    path = tmp_path / MANIFEST / "00000001.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes} if changes else changes))
    with pytest.raises(PipelineError) as raised:
        verify(archive)
    assert str(raised.value) == f"{path}: not a manifest of a commit ({said})"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"number": "20"}, "number has to be int, not '20'"),
        ({"totals": {"rows": None}}, "totals.rows has to be int, not None"),
        ({"replaced": {"a": "1"}}, "replaced has to be an object with values of type int, not {'a': '1'}"),
        ({"segments": [{"path": "a"}]}, "segments[0].first is missing"),
    ],
)
def test_a_checkpoint_of_another_shape_is_named_with_its_field(changes: Any, said: str) -> None:
    text = to_json(Checkpoint(20))
    assert from_json(text.encode()) == Checkpoint(20)
    with pytest.raises(ValueError, match=f"^{re.escape(said)}$"):
        from_json(json.dumps({**json.loads(text), **changes}).encode())
