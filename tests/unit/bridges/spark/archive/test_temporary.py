"""What killed jobs leave in the temporary folder of their machine, which has events, is removed by the next ones."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from bridges.spark.archive.writers.temporary import remove_abandoned, temporary_folder
from tests.support.gateway.process import fork


def test_what_a_killed_job_has_left_is_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folders of jobs that run, or are about to, are theirs."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    if not (child := fork()):
        with temporary_folder() as folder:
            (folder / "0000.parquet").touch()
            os._exit(9)
    os.waitpid(child, 0)
    (left,) = tmp_path.iterdir()
    remove_abandoned()
    assert left.exists(), "it is young"
    with temporary_folder() as running:
        for each in (left, running):
            os.utime(each, (0, 0))
        remove_abandoned()
        assert list(tmp_path.iterdir()) == [running]
    assert list(tmp_path.iterdir()) == []
