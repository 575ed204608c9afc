"""Files of the manifest: written atomically; errors of reading name the file."""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from bridges.spark.archive.manifest import checkpoint, commits
from bridges.spark.archive.manifest.checkpoint import Checkpoint, ManifestSegment, SegmentRows
from bridges.spark.archive.manifest.commits import Commit
from bridges.spark.archive.storage.paths import StoragePath, create_whole, digest, readable, sync_folder, unreadable
from bridges.spark.errors import Damaged, PipelineError, sentence

SEGMENTS: Final = "segments"
T = TypeVar("T")
_OWN: Final = re.compile(
    rf"(?:checkpoint-)?(\d{{8,}})\.json|{SEGMENTS}/\d{{8,}}-\d{{8,}}(?:-[0-9a-f]{{8}})?\.parquet|(?:{SEGMENTS}/)?\.[^/]*"
)


def manifest_path(folder: StoragePath, number: int) -> StoragePath:
    """The manifest of one commit."""
    return folder / f"{number:08}.json"


def checkpoint_path(folder: StoragePath, number: int) -> StoragePath:
    """The checkpoint of the commits up to a number."""
    return folder / f"checkpoint-{number:08}.json"


def is_of_manifest(name: str) -> bool:
    """Whether the manifest's folder may have this file: commits, checkpoints, segments, locks and unfinished files."""
    found = _OWN.fullmatch(name)
    if found is None or (number := found[1]) is None:
        return found is not None
    return int(number) > 0 and number == f"{int(number):08}"


def read_commit(path: StoragePath) -> Commit:
    """A manifest. Raises `PipelineError`, and `FileNotFoundError` if there is none."""
    return _read(path, commits.from_json, "a manifest of a commit")


def read_checkpoint(path: StoragePath) -> Checkpoint:
    """A checkpoint. Raises `PipelineError`, and `FileNotFoundError` if there is none."""
    return _read(path, checkpoint.from_json, "a checkpoint of a manifest")


def _read(path: StoragePath, parse: Callable[[bytes], T], what: str) -> T:
    try:
        return parse(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise PipelineError(sentence(error)) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = str(error) if type(error) is ValueError else f"{type(error).__name__}: {error}"
        raise Damaged(f"{path}: not {what} ({reason})") from None


def read_segment(folder: StoragePath, segment: ManifestSegment, columns: Sequence[str] | None = None) -> pa.Table:
    """The manifests of a segment, or some columns of them. Raises `PipelineError`."""
    path = folder / segment.path
    try:
        with pq.ParquetFile(readable(path)) as file:
            found = file.read(columns=None if columns is None else list(columns))
    except FileNotFoundError:
        missing = f"the manifests of commits {segment.first} to {segment.last}"
        raise Damaged(f"{path} is missing, with {missing}: restore it from a copy of the archive") from None
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(path, error) from None
    if len(found) != segment.last - segment.first + 1:
        expected = f"commits {segment.first} to {segment.last}"
        raise Damaged(f"{path} has {len(found)} manifests, and should have those of {expected}")
    return found


def write_segment(folder: StoragePath, rows: SegmentRows) -> ManifestSegment:
    """Write manifests as a segment, and read them back. Raises `OSError` and `PipelineError`."""
    table = rows.table()
    first, last = (table.column("number")[place].as_py() for place in (0, -1))
    write = _segment_file if isinstance(folder, Path) else _segment_object
    path, size, own = write(folder / SEGMENTS, f"{first:08}-{last:08}", table)
    segment = ManifestSegment(f"{SEGMENTS}/{path.name}", first, last, size, own, rows.folders())
    if not read_segment(folder, segment).equals(table):
        raise PipelineError(f"{path} differs from what was written: check the disk")
    return segment


def _segment_file(folder: StoragePath, name: str, table: pa.Table) -> tuple[StoragePath, int, str]:
    assert isinstance(folder, Path)
    path = folder / f"{name}.parquet"
    folder.mkdir(exist_ok=True)
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        pq.write_table(table, fresh, **_options(table))
        own, size = digest(fresh, sync=True), fresh.stat().st_size
        fresh.rename(path)
    except OSError:
        fresh.unlink(missing_ok=True)
        raise
    sync_folder(folder)
    return path, size, own


def _segment_object(folder: StoragePath, name: str, table: pa.Table) -> tuple[StoragePath, int, str]:
    """Write the segment under a unique name, since another job may write the same commits at the same time."""
    path = folder / f"{name}-{uuid.uuid4().hex[:8]}.parquet"
    stream = pa.BufferOutputStream()
    pq.write_table(table, stream, **_options(table))
    data = stream.getvalue().to_pybytes()
    path.write_bytes(data)
    return path, len(data), hashlib.sha256(data).hexdigest()


def _options(table: pa.Table) -> dict[str, object]:
    return {"compression": "zstd", "row_group_size": len(table), "write_page_checksum": True}


def write_checkpoint(folder: StoragePath, written: Checkpoint) -> None:
    """Write a checkpoint. Raises `OSError`."""
    create_whole(checkpoint_path(folder, written.number), checkpoint.to_json(written))
