"""Files of the manifest on the disk: written whole, read with an error that names them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from bridges.spark.archive.manifest import checkpoint, commits
from bridges.spark.archive.manifest.checkpoint import Checkpoint, ManifestSegment, SegmentRows
from bridges.spark.archive.manifest.commits import Commit
from bridges.spark.errors import PipelineError

SEGMENTS: Final = "segments"
T = TypeVar("T")


def manifest_path(folder: Path, number: int) -> Path:
    """The manifest of one commit."""
    return folder / f"{number:08}.json"


def checkpoint_path(folder: Path, number: int) -> Path:
    """The checkpoint of the commits up to a number."""
    return folder / f"checkpoint-{number:08}.json"


def read_commit(path: Path) -> Commit:
    """A manifest. Raises `PipelineError`, and `FileNotFoundError` if there is none."""
    return _read(path, commits.from_json, "a manifest of a commit")


def read_checkpoint(path: Path) -> Checkpoint:
    """A checkpoint. Raises `PipelineError`, and `FileNotFoundError` if there is none."""
    return _read(path, checkpoint.from_json, "a checkpoint of a manifest")


def _read(path: Path, parse: Callable[[bytes], T], what: str) -> T:
    try:
        return parse(path.read_bytes())
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise PipelineError(f"{path}: not {what} ({type(error).__name__}: {error})") from None


def read_segment(folder: Path, segment: ManifestSegment, columns: Sequence[str] | None = None) -> pa.Table:
    """The manifests of a segment, or some columns of them. Raises `PipelineError`."""
    path = folder / segment.path
    try:
        with pq.ParquetFile(path) as file:
            found = file.read(columns=None if columns is None else list(columns))
    except FileNotFoundError:
        missing = f"the manifests of commits {segment.first} to {segment.last}"
        raise PipelineError(f"{path} is missing, with {missing}: restore it from a copy of the archive") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise PipelineError(f"{path} cannot be read as Parquet: {str(error).splitlines()[0]}") from None
    if len(found) != segment.last - segment.first + 1:
        expected = f"commits {segment.first} to {segment.last}"
        raise PipelineError(f"{path} has {len(found)} manifests, and should have those of {expected}")
    return found


def write_segment(folder: Path, rows: SegmentRows) -> ManifestSegment:
    """Write manifests as a segment, and read them back. Raises `OSError` and `PipelineError`."""
    table = rows.table()
    first, last = (table.column("number")[place].as_py() for place in (0, -1))
    path = folder / SEGMENTS / f"{first:08}-{last:08}.parquet"
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table, fresh, compression="zstd", row_group_size=len(table), write_page_checksum=True)
        own, size = digest(fresh, sync=True), fresh.stat().st_size
        fresh.rename(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)
    name = f"{SEGMENTS}/{path.name}"
    segment = ManifestSegment(name, first, last, size, own, rows.folders())
    if not read_segment(folder, segment).equals(table):
        raise PipelineError(f"{path} is not what was written: check the disk")
    return segment


def write_checkpoint(folder: Path, written: Checkpoint) -> None:
    """Write a checkpoint. Raises `OSError`."""
    write_whole(checkpoint_path(folder, written.number), checkpoint.to_json(written))


def write_whole(path: Path, text: str) -> None:
    """Replace a file atomically, for readers and for the disk after a crash. Raises `OSError`."""
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


_CHUNK: Final = 1 << 20


def digest(path: Path, *, sync: bool = False) -> str:
    """SHA-256 of a file, which is on the disk afterwards if `sync`."""
    found = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            found.update(chunk)
        if sync:
            os.fsync(file.fileno())
    return found.hexdigest()


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
