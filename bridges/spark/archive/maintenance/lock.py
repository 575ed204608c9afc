"""One job at a time rewrites files of an archive; the job that archives goes on beside it."""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from bridges.spark.archive.store import MANIFEST, REWRITING, Archive
from bridges.spark.errors import PipelineError, sentence


def settle(archive: Archive) -> None:
    """Finish what a job that was killed left half done: what there is to do can only be told afterwards."""
    with maintaining(archive):
        pass


@contextmanager
def maintaining(archive: Archive) -> Iterator[None]:
    """Lock the archive against other jobs of this kind, and remove what a killed one left. Raises `PipelineError`."""
    try:
        lock = (archive.path / MANIFEST / ".maintenance").open("a")
    except OSError as error:
        raise PipelineError(f"{archive.path} cannot be written: {sentence(error)}") from None
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PipelineError(f"another job compacts, expires or erases in {archive.path}") from None
        with archive.changing():  # what was committed is in place now
            shutil.rmtree(archive.path / REWRITING, ignore_errors=True)
        try:
            yield
        finally:
            with archive.changing():
                shutil.rmtree(archive.path / REWRITING, ignore_errors=True)
