"""A file that the driver writes to a folder, so that tasks can check that they see the same folder."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NamedTuple

from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.errors import PipelineError, sentence


class Token(NamedTuple):
    """A file in the archive's folder, and its content."""

    path: StoragePath
    text: str

    @classmethod
    def left(cls, path: StoragePath) -> Token:
        """Write a new token. Raises `OSError`."""
        token = cls(path.absolute(), secrets.token_hex(16))
        path.write_bytes(token.text.encode())
        return token

    @classmethod
    def shared(cls, path: Path) -> Token:
        """The existing token, or a new one; concurrent processes get the same one. Raises `OSError`."""
        token = cls(path.absolute(), secrets.token_hex(16))
        mine = path.with_name(f"{path.name}-{token.text}")
        try:
            mine.write_text(token.text)
            _link(mine, path)
            return cls(token.path, path.read_text())
        finally:
            mine.unlink(missing_ok=True)

    def seen(self) -> bool:
        """Whether this process sees the token."""
        try:
            return self.problem() is None
        except OSError:
            return False

    def problem(self) -> str | None:
        """Why this process does not see the token. Raises `OSError` for errors that may pass, such as a denial."""
        try:
            found = self.path.read_bytes()
        except (FileNotFoundError, NotADirectoryError, PipelineError) as error:
            return sentence(error)
        return None if found == self.text.encode() else f"{self.path} has different content"


def _link(mine: Path, path: Path) -> None:
    """Create `path` with its whole content, unless it exists."""
    try:
        os.link(mine, path)
    except FileExistsError:
        return
    except OSError:  # the file system has no hard links
        if not path.exists():
            mine.replace(path)
