"""Where tasks write files: into the staging folder of a commit, or under their final names in an object store.

A target is sent to the tasks. An object is a local temporary file until it is closed, and then uploaded as a whole.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import uuid
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final, Protocol

from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.archive.storage.s3 import ObjectPath


class HashedFile:
    """A file that is hashed while it is written; `name` is relative to the base of its target."""

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self.name: Final = name
        self._file: Final = file
        self._digest: Final = hashlib.sha256()
        self.bytes = 0

    def write(self, data: bytes) -> int:
        """Append bytes. Raises `OSError`."""
        self._digest.update(data)
        self.bytes += self._file.write(data)
        return len(data)

    def tell(self) -> int:
        """The number of bytes written so far."""
        return self.bytes

    def flush(self) -> None:
        """Do nothing: `close` writes everything."""

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return self._file.closed

    def close(self) -> None:
        """Write everything to its destination. Raises `OSError`."""
        if not self._file.closed:
            with self._file:
                self._file.flush()
                self._keep(self._file)

    def _keep(self, file: IO[bytes]) -> None:
        os.fsync(file.fileno())

    def abandon(self) -> None:
        """Close it unfinished, and remove it."""
        with suppress(OSError):
            self._file.close()

    def sha256(self) -> str:
        """The digest of all bytes so far."""
        return self._digest.hexdigest()


class StagedFile(HashedFile):
    """A file in a staging folder."""

    def __init__(self, path: Path) -> None:
        """Raises `OSError`; the folder must exist: a task that does not see it must not create another one."""
        super().__init__(path.name, path.open("xb"))
        self._path: Final = path

    def abandon(self) -> None:
        """Close it unfinished, and remove it."""
        super().abandon()
        self._path.unlink(missing_ok=True)


class UploadedFile(HashedFile):
    """A temporary file that becomes an object when it is closed. It has no name: nothing is left of a killed task."""

    def __init__(self, name: str, place: ObjectPath) -> None:
        super().__init__(name, tempfile.TemporaryFile())  # noqa: SIM115
        self._place: Final = place

    def _keep(self, file: IO[bytes]) -> None:
        file.seek(0)
        self._place.upload(file)


class FileTarget(Protocol):
    """Where the files of one commit are written."""

    @property
    def base(self) -> StoragePath:
        """The base of the files' relative names."""

    @property
    def token(self) -> StoragePath:
        """The path of the token by which tasks check that they see the same storage."""

    def begin(self) -> None:
        """Called before the token is written. Raises `OSError`."""

    def release(self) -> None:
        """Called when the tasks have ended. Raises `OSError`."""

    def create(self, folder: str) -> HashedFile:
        """Create a file in a folder `address=…/date=…`. Raises `OSError`."""

    def place(self, name: str, folder: str, number: int, index: int) -> tuple[Path | None, str]:
        """The path of a file that has to be moved (otherwise `None`), and its path in the archive."""


@dataclass(frozen=True)
class StagingTarget:
    """A staging folder, from which the commit moves the files to their final paths."""

    base: Path

    @property
    def token(self) -> Path:
        """A file beside the staging folder."""
        return self.base.with_suffix(".token")

    def begin(self) -> None:
        """Make the folder."""
        self.base.mkdir()

    def release(self) -> None:
        """Remove the token."""
        self.token.unlink(missing_ok=True)

    def create(self, folder: str) -> HashedFile:
        """Create a file with a random name."""
        return StagedFile(self.base / f"{uuid.uuid4().hex}.parquet")

    def place(self, name: str, folder: str, number: int, index: int) -> tuple[Path | None, str]:
        """The staged file, which has to be moved, and its final path."""
        return self.base / name, f"{folder}/{number:08}-{index:04}.parquet"


@dataclass(frozen=True)
class ObjectTarget:
    """Objects with names unique to this attempt, all of which contain `staging`."""

    base: ObjectPath
    token: ObjectPath
    staging: str

    def begin(self) -> None:
        """Do nothing."""

    def release(self) -> None:
        """Do nothing: the token stays while there may be objects whose names contain `staging`."""

    def create(self, folder: str) -> HashedFile:
        """Create an object under its final name; it counts once a commit names it."""
        name = f"{folder}/{self.staging}-{uuid.uuid4().hex[:8]}.parquet"
        return UploadedFile(name, self.base / name)

    def place(self, name: str, folder: str, number: int, index: int) -> tuple[Path | None, str]:
        """No source, since the object is in place, and its path."""
        return None, name
