"""File operations of the archive, for folders and object stores alike.

Each function behaves the same for both, so that other modules need not distinguish them.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import pyarrow as pa

from bridges.spark.archive.storage.s3 import ENVIRONMENT, ObjectPath, S3Settings, from_environment
from bridges.spark.errors import Damaged, PipelineError, sentence
from policies.values.folders import is_object_store

StoragePath: TypeAlias = Path | ObjectPath
_CHUNK: Final = 1 << 20
_BLOCK: Final = 4 << 20
"""Size of a ranged read request, in bytes."""
_BLOCKS: Final = 4
"""Number of cached blocks of an object: adjacent columns often share a block."""


def storage_path(text: str, settings: S3Settings = ENVIRONMENT) -> StoragePath:
    """The path of a folder, or of a prefix in a bucket for `s3://bucket/prefix`. Raises `ValueError`."""
    return ObjectPath.from_url(text, from_environment(settings)) if is_object_store(text) else Path(text)


def readable(path: StoragePath) -> Path | pa.NativeFile:
    """The source from which pyarrow reads a file. Raises `OSError`."""
    return path if isinstance(path, Path) else pa.PythonFile(ObjectReader(path), "r")


def is_of_storage(error: BaseException) -> bool:
    """Whether an error is of the disk or the store; those of Arrow, about the content of a file, have no number."""
    return isinstance(error, OSError) and error.errno is not None


def unreadable(path: StoragePath, error: Exception) -> PipelineError:
    """The error for a Parquet file whose content, or whose storage, does not let it be read."""
    if is_of_storage(error):
        return PipelineError(sentence(error))
    return Damaged(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}")


def names_in(folder: StoragePath) -> list[str]:
    """The names of the files in a folder. Raises `FileNotFoundError`; an object store has no empty folders."""
    return os.listdir(folder) if isinstance(folder, Path) else folder.names()


def digest(path: StoragePath, *, sync: bool = False) -> str:
    """The SHA-256 of a file; with `sync`, the file is also flushed to disk."""
    found = hashlib.sha256()
    if not isinstance(path, Path):
        for part in path.chunks():
            found.update(part)
        return found.hexdigest()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
        if sync:
            os.fsync(file.fileno())
    return found.hexdigest()


def write_whole(path: StoragePath, text: str) -> None:
    """Replace a file atomically and durably. Raises `OSError`."""
    if not isinstance(path, Path):
        path.write_bytes(text.encode())
        return
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with fresh.open("w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        fresh.rename(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def create_whole(path: StoragePath, text: str) -> None:
    """Write a new file. Raises `OSError`; in an object store `FileExistsError` if another process has written it.

    In a folder, the caller has locked it.
    """
    if isinstance(path, Path):
        write_whole(path, text)
        return
    try:
        path.create(text.encode())
    except FileExistsError:
        if _read(path) != text.encode():  # equal: an earlier request succeeded and its answer was lost
            raise


def _read(path: ObjectPath) -> bytes:
    """The bytes of an object that exists, according to the store."""
    try:
        return path.read_bytes()
    except FileNotFoundError:  # AWS: 409, while another conditional request for it is under way
        text = "the object store refuses to write it, because of another request: try again later"
        raise OSError(errno.EAGAIN, text, str(path)) from None


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


class ObjectReader(io.RawIOBase):
    """An object as a file for pyarrow, with a cache of a few blocks."""

    def __init__(self, path: ObjectPath) -> None:
        """Raises `OSError`."""
        super().__init__()
        self._path: Final = path
        self._size: Final = path.stat().st_size
        self._position = 0
        self._blocks: Final[OrderedDict[int, bytes]] = OrderedDict()

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def tell(self) -> int:
        """The position."""
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position."""
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        """The next bytes: fewer than `size` only at the end."""
        left = max(self._size - self._position, 0)
        count = left if size is None or size < 0 else min(size, left)
        found = self._path.read_range(self._position, count) if count >= _BLOCK else b"".join(self._pieces(count))
        self._position += count
        return found

    def _pieces(self, count: int) -> Iterator[bytes]:
        start, end = self._position, self._position + count
        while start < end:
            number, inside = divmod(start, _BLOCK)
            if not (piece := self._block(number)[inside : inside + end - start]):
                raise OSError(errno.EIO, "the object has become shorter", str(self._path))
            yield piece
            start += len(piece)

    def _block(self, number: int) -> bytes:
        if number not in self._blocks:
            start = number * _BLOCK
            self._blocks[number] = self._path.read_range(start, min(_BLOCK, self._size - start))
            if len(self._blocks) > _BLOCKS:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(number)
        return self._blocks[number]
