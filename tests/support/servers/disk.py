"""A small file system that can be full: tmpfs, mounted for one test, which needs root."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

BLOCK: Final = 4096


class SmallDisk:
    """`path` is where it is mounted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ballast = path / "ballast"

    def fill(self, left: int = 0) -> None:
        """Take all room but so many bytes."""
        with self._ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
            while True:
                file.write(bytes(BLOCK))
        if left:
            os.truncate(self._ballast, max(self._ballast.stat().st_size - left, 0))

    def free(self) -> None:
        """Give it back."""
        self._ballast.unlink()


def may_mount() -> bool:
    """Whether this process may mount anything at all: a matter of rights, not of a part that could be installed."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", f"size={BLOCK}", "none", folder]
        if os.geteuid() or subprocess.run(command, check=False, capture_output=True).returncode:
            return False
        subprocess.run(["umount", "--lazy", folder], check=True)
    return True


@contextmanager
def small_disk(folder: Path, size: int) -> Iterator[SmallDisk]:
    """Mount one of so many bytes at a new folder; it goes with its contents."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(folder)], check=True)
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
