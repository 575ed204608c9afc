"""Checkpoints: a summary of the commits up to a number, with their manifests in segments of Parquet.

    _manifest/checkpoint-00001000.json           ends, totals and the list of segments
    _manifest/segments/00000501-00001000.parquet  the manifests of these commits, a row each

A segment is never rewritten; a checkpoint names all of them with their digests. So a checkpoint costs only as
much as the commits since the last one, and a reader opens only segments with files of its addresses and dates.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa

from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.manifest.commits import OPEN, Commit, File, FilePart, JsonObject, RemovedRows
from bridges.spark.archive.manifest.shape import TypeForm, misfits

FORMAT: Final = 2
"""Version 1 covers manifests of versions 1 and 2."""
READ: Final = (1, 2)
MOST_FOLDERS: Final = 64
"""Maximum number of folders that are listed for a segment; one with more is always opened."""
_TOGETHER: Final = 25
"""Number of tables that are concatenated at a time; joining 500 took half the time of a checkpoint."""
_PART: Final = pa.struct([(name, pa.int64()) for name in ("partition", "rows", "first", "last")])
_RANGE: Final = pa.struct([
    ("address", pa.string()), ("partition", pa.int64()), ("start", pa.int64()), ("end", pa.int64()),
    ("rows", pa.int64()), ("identity", pa.string()), ("gap_reason", pa.string()),
])  # fmt: skip
_FILE: Final = pa.struct([
    ("path", pa.string()), ("bytes", pa.int64()), ("sha256", pa.string()), ("parts", pa.list_(_PART)),
    ("earliest", pa.int64()), ("latest", pa.int64()),
])  # fmt: skip
_REMOVED: Final = pa.struct([("address", pa.string()), ("partition", pa.int64()), ("rows", pa.int64())])
SCHEMA: Final = pa.schema([
    ("number", pa.int64()), ("staging", pa.string()), ("ranges", pa.list_(_RANGE)), ("files", pa.list_(_FILE)),
    ("unknown", pa.int64()), ("kind", pa.string()), ("replaced", pa.list_(pa.string())),
    ("removed", pa.list_(_REMOVED)), ("note", pa.string()), ("time", pa.int64()),
])  # fmt: skip
_CLASSES: Final[Mapping[str, Callable[..., object]]] = {
    "ranges": Range, "files": File, "parts": FilePart, "removed": RemovedRows
}  # fmt: skip
"""The structs in lists, by the name of the column."""


_EMPTY: Final = {"staging": "", "ranges": (), "files": ()}
"""Values of the fields of a commit that is read without their columns."""


@dataclass(frozen=True)
class ManifestSegment:
    """A file with the manifests of the commits `first` to `last`."""

    path: str
    first: int
    last: int
    bytes: int
    sha256: str
    folders: tuple[str, ...] | None
    """The folders `address=…/date=…` of its files; null if there are too many."""


@dataclass
class Totals:
    """Sums over commits: rows added and removed, files and bytes written, also those replaced since."""

    rows: int = 0
    removed: int = 0
    files: int = 0
    bytes: int = 0
    unknown: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """The summary of the commits 1 to `number`."""

    number: int = 0
    ends: Mapping[tuple[str, int], Range] = field(default_factory=dict)
    """The last range of each partition."""
    replaced: Mapping[str, int] = field(default_factory=dict)
    """Folders, with the last commit that replaced their files."""
    deferred: Mapping[str, int] = field(default_factory=dict)
    """Folders whose replaced files still exist, with the time when they may be deleted, in milliseconds since 1970."""
    totals: Totals = field(default_factory=Totals)
    writer: str = ""
    """The job that may append, if a commit names one."""
    segments: tuple[ManifestSegment, ...] = ()


class Summary:
    """Summarizes commits in their order, starting from a checkpoint."""

    def __init__(self, begin: Checkpoint = Checkpoint()) -> None:
        self.number = begin.number
        self.ends: Final = dict(begin.ends)
        self.replaced: Final = dict(begin.replaced)
        self.deferred: Final = dict(begin.deferred)
        self.totals: Final = replace(begin.totals)
        self.writer = begin.writer

    def add(self, commit: Commit) -> None:
        """Add a commit to the summary."""
        self.number = commit.number
        self.ends.update(((each.address, each.partition), each) for each in commit.ranges)
        for folder in commit.replaced:
            self.replaced[folder] = commit.number
            self.deferred.pop(folder, None)
            if commit.is_deferred:
                self.deferred[folder] = int(commit.note.get("due", "0"))
        if commit.kind == OPEN:
            self.writer = commit.note.get("writer", "")
        self.totals.rows += commit.rows
        self.totals.removed += sum(each.rows for each in commit.removed)
        self.totals.files += len(commit.files)
        self.totals.bytes += sum(each.bytes for each in commit.files)
        self.totals.unknown += commit.unknown

    def checkpoint(self, segments: Iterable[ManifestSegment]) -> Checkpoint:
        """The summary as a checkpoint."""
        totals = replace(self.totals)
        return Checkpoint(
            self.number, dict(self.ends), dict(self.replaced), dict(self.deferred), totals, self.writer, tuple(segments)
        )


# -- as JSON


def to_json(checkpoint: Checkpoint) -> str:
    """The text of a checkpoint."""
    return json.dumps({
        "format": FORMAT,
        "number": checkpoint.number,
        "ends": [vars(checkpoint.ends[key]) for key in sorted(checkpoint.ends)],
        "replaced": checkpoint.replaced,
        "deferred": checkpoint.deferred,
        "totals": asdict(checkpoint.totals),
        "writer": checkpoint.writer,
        "segments": [vars(each) for each in checkpoint.segments],
    }, separators=(",", ":"))  # fmt: skip


_READ_INTO: Final[Mapping[str, TypeForm]] = {
    "number": int, "ends": tuple[Range, ...], "replaced": Mapping[str, int], "totals": Totals,
    "segments": tuple[ManifestSegment, ...],
}  # fmt: skip
"""The types of the keys of a checkpoint."""


def from_json(data: bytes) -> Checkpoint:
    """A checkpoint. Raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` if the text is invalid."""
    found: JsonObject = json.loads(data)
    if (version := found["format"]) not in READ:
        raise ValueError(f"checkpoint of version {version}, this scopegate reads version {READ[-1]}")
    for name, kind in _READ_INTO.items():
        for problem in misfits(found[name], kind, {}, name):
            raise ValueError(problem)
    ends = [Range(**each) for each in found["ends"]]
    return Checkpoint(
        found["number"],
        {(each.address, each.partition): each for each in ends},
        found["replaced"],
        found.get("deferred", {}),
        Totals(**found["totals"]),
        found.get("writer", ""),
        tuple(map(_segment, found["segments"])),
    )


def _segment(entry: JsonObject) -> ManifestSegment:
    folders = entry.pop("folders")
    return ManifestSegment(**entry, folders=None if folders is None else tuple(folders))


# -- manifests as a table


def to_table(commits: Sequence[Commit]) -> pa.Table:
    """A row for each commit."""
    return pa.Table.from_arrays([_array(commits, each) for each in SCHEMA], schema=SCHEMA)


def _array(objects: Sequence[object], of: pa.Field) -> pa.Array:
    values = [getattr(each, of.name) for each in objects]
    if not pa.types.is_list(of.type):
        return pa.array([json.dumps(each) for each in values] if of.name == "note" else values, of.type)
    struct, ends = of.type.value_type, np.cumsum([0, *map(len, values)], dtype=np.int32)
    flat = [item for each in values for item in each]
    if not pa.types.is_struct(struct):
        return pa.ListArray.from_arrays(ends, pa.array(flat, struct), type=of.type)
    items = pa.StructArray.from_arrays([_array(flat, each) for each in struct], fields=list(struct))
    return pa.ListArray.from_arrays(ends, items, type=of.type)


class SegmentRows:
    """The rows of the next segment; each commit is converted when it is added, so writing them is one short step."""

    def __init__(self) -> None:
        self._tables: Final[list[pa.Table]] = []
        self._whole: Final[list[pa.Table]] = []
        self._folders: Final[set[str]] = set()

    def add(self, commits: Sequence[Commit]) -> None:
        """Convert more commits. Raises `ValueError` if reading the rows would not give back the same commits."""
        rows = to_table(commits)
        if list(from_table(rows)) != list(commits):
            raise ValueError(f"commit {commits[0].number} or a later one cannot be stored in a segment")
        self._tables.append(rows)
        if len(self._tables) == _TOGETHER:
            self._whole.append(pa.concat_tables(self._tables).combine_chunks())
            self._tables.clear()
        self._folders.update(file.folder for commit in commits for file in commit.files)

    def table(self) -> pa.Table:
        """All rows as one table."""
        return pa.concat_tables([*self._whole, *self._tables]).combine_chunks()

    def folders(self) -> tuple[str, ...] | None:
        """The folders of their files, or `None` if there are too many."""
        return tuple(sorted(self._folders)) if len(self._folders) <= MOST_FOLDERS else None


def from_table(table: pa.Table) -> Iterator[Commit]:
    """The commits of a table; missing columns get their defaults."""
    names = table.schema.names
    for batch in table.to_batches():
        for values in zip(*(_values(name, batch.column(name)) for name in names), strict=True):
            found: JsonObject = dict(zip(names, values, strict=True))
            yield Commit(**{**_EMPTY, **found, "note": json.loads(found.get("note") or "{}")})


def _values(name: str, array: pa.Array) -> list[object]:
    if not pa.types.is_list(array.type):
        plain: list[object] = array.to_pylist()
        return plain
    items, ends = array.flatten(), array.offsets.to_pylist()
    flat: list[object] = _objects(name, items) if pa.types.is_struct(items.type) else items.to_pylist()
    return [tuple(flat[start - ends[0] : end - ends[0]]) for start, end in itertools.pairwise(ends)]


def _objects(name: str, items: pa.StructArray) -> list[object]:
    made, names = _CLASSES[name], [each.name for each in items.type]
    columns = [_values(each, items.field(place)) for place, each in enumerate(names)]
    return [made(**dict(zip(names, values, strict=True))) for values in zip(*columns, strict=True)]
