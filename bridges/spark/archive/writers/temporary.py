"""Folders for files that are about to be uploaded. Those of killed jobs have events that may have been erased since."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

_PREFIX: Final = "scopegate-rewriting-"
_YOUNG: Final = 60.0
"""Age in seconds below which a folder may not be locked yet."""


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A new folder, locked until it is removed."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as name, _locked(Path(name)):
        yield Path(name)


def remove_abandoned() -> None:
    """Remove the folders on this machine whose jobs were killed: the system has released their locks."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):  # it is locked, or of another user
            if folder.stat().st_mtime + _YOUNG < time.time():
                with _locked(folder):
                    shutil.rmtree(folder)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)
