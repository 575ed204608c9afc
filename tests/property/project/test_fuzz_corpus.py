"""Every input that fuzzing kept is treated as it should be (tests/fuzz)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz import corpus
from tests.fuzz.targets import NAMES, load


@pytest.mark.parametrize("name", NAMES)
def test_what_fuzzing_kept_is_treated_as_it_should_be(name: str) -> None:
    target, inputs = load(name), corpus.read(name)
    assert inputs
    for data in inputs:
        try:
            target.one(data)
        except Exception as error:
            error.add_note(f"with {data!r}")
            raise


def test_what_is_written_is_read_and_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "FOLDER", tmp_path)
    corpus.write("any", [b"longer", b"", b"\xff", b"longer"])
    assert corpus.read("any") == [b"", b"\xff", b"longer"]
    corpus.unpack("any", tmp_path / "files")
    assert sorted(file.read_bytes() for file in (tmp_path / "files").iterdir()) == [b"", b"longer", b"\xff"]
