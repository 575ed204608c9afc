"""A file that the driver leaves in a folder, so that tasks can tell whether they see the same folder."""

from __future__ import annotations

import os
import secrets
from pathlib import Path
from typing import NamedTuple


class Token(NamedTuple):
    """A file in the archive's folder, and its content."""

    path: str
    text: str

    @classmethod
    def left(cls, path: Path) -> Token:
        """Write a new token. Raises `OSError`."""
        token = cls(str(path.absolute()), secrets.token_hex(16))
        path.write_text(token.text)
        return token

    @classmethod
    def shared(cls, path: Path) -> Token:
        """The token that exists, or a new one; processes that ask at the same time get the same. Raises `OSError`."""
        token = cls(str(path.absolute()), secrets.token_hex(16))
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
            return Path(self.path).read_text() == self.text
        except OSError:
            return False


def _link(mine: Path, path: Path) -> None:
    """Create `path` with its whole content, unless it exists."""
    try:
        os.link(mine, path)
    except FileExistsError:
        return
    except OSError:  # the file system has no hard links
        if not path.exists():
            mine.replace(path)
