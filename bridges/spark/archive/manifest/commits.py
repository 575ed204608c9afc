"""Commits of an archive and their files, as objects and as the JSON of a manifest. Pure.

Version 1 had only appends, and no `parts`; it will always be readable. Version 2 adds keys, all of them optional. From
version 3 on, files may have the layout of `bridges.spark.archive.contents.file_layout`, without messages.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from bridges.spark.archive.contents.ranges import Range
from bridges.spark.archive.manifest.shape import misfits

JsonObject: TypeAlias = dict[str, Any]
"""A manifest or a part of it; the classes below validate the contents."""
FORMAT: Final = 3
READ: Final = (1, 2, 3)
APPEND: Final = "append"
COMPACT: Final = "compact"
PLACE: Final = "place"
EXPIRE: Final = "expire"
ERASE: Final = "erase"
OPEN: Final = "open"
COMPACTED: Final = "_compacted"
"""The folder of compacted files until they are moved to their final paths."""
KINDS: Final = (APPEND, COMPACT, PLACE, EXPIRE, ERASE, OPEN)
_GAP_REASON: Final = "fate"
"""The key of `Range.gap_reason` in a manifest."""


@dataclass(frozen=True)
class FilePart:
    """The rows of one partition in a file; `last` is inclusive."""

    partition: int
    rows: int
    first: int
    last: int


@dataclass(frozen=True)
class File:
    """A Parquet file of a commit; `path` is relative to the archive."""

    path: str
    bytes: int
    sha256: str
    parts: tuple[FilePart, ...] = ()
    """By partition; empty if the version that wrote the file did not record them."""
    earliest: int | None = None
    latest: int | None = None
    """First and last timestamp of the rows, in milliseconds since 1970; null if unknown."""

    @property
    def folder(self) -> str:
        """The folder of its address and date, as `address=…/date=…`."""
        return folder_of(self.path)

    @property
    def address(self) -> str:
        """The address of its rows."""
        return address_of(self.folder)

    @property
    def date(self) -> str:
        """The date of its rows (ISO 8601), or `__HIVE_DEFAULT_PARTITION__` for rows without one."""
        return date_of(self.folder)


def folder_of(path: str) -> str:
    """The folder `address=…/date=…` of a file."""
    return "/".join(path.split("/")[:-1][-2:])


def address_of(folder: str) -> str:
    """The address of a folder `address=…/date=…`."""
    return unquote(folder.split("/", 1)[0].removeprefix("address="))


def date_of(folder: str) -> str:
    """The date of a folder `address=…/date=…`."""
    return folder.rsplit("/", 1)[-1].removeprefix("date=")


@dataclass(frozen=True)
class RemovedRows:
    """Rows of one partition that a commit removed from the archive."""

    address: str
    partition: int
    rows: int


@dataclass(frozen=True)
class Commit:
    """One commit of an archive."""

    number: int
    staging: str
    ranges: tuple[Range, ...]
    files: tuple[File, ...]
    unknown: int = 0
    """Events of an unknown record mapping: their records are unchanged, their columns those of plain records."""
    kind: str = APPEND
    """`compact`: `files` have the rows of the replaced ones; `place`: the files are at their final paths; `expire` and
    `erase`: rows were removed on purpose; `open`: from now on, only the named job may append (object stores)."""
    replaced: tuple[str, ...] = ()
    """Folders `address=…/date=…` whose entire contents are `files`: files of earlier commits are no longer read."""
    removed: tuple[RemovedRows, ...] = ()
    note: Mapping[str, str] = field(default_factory=dict)
    """Who removed rows, and why."""
    time: int = 0
    """When it was written, in milliseconds since 1970; 0 in version 1."""

    @property
    def changes_rows(self) -> bool:
        """Whether the commit changes the rows of the archive."""
        return self.kind not in (COMPACT, PLACE, OPEN)

    @property
    def is_deferred(self) -> bool:
        """Whether the replaced files stay for a grace time, and the new ones are in another folder until then."""
        return any(file.path.startswith(f"{COMPACTED}/") for file in self.files)

    @property
    def rows(self) -> int:
        """The events that it added."""
        return sum(each.rows for each in self.ranges)


def to_json(commit: Commit) -> str:
    """The text of a manifest."""
    found = asdict(commit)
    for each in found["ranges"]:
        each[_GAP_REASON] = each.pop("gap_reason")
    return json.dumps({"format": FORMAT, **found}, separators=(",", ":"))


def from_json(data: bytes) -> Commit:
    """Parse a manifest. Raises `ValueError` if it is invalid."""
    found: JsonObject = json.loads(data)
    if isinstance(found, dict) and (version := found.pop("format", None)) not in READ:
        raise ValueError(f"manifest of version {version}, this scopegate reads version {READ[-1]}")
    for problem in misfits(found, Commit, {"gap_reason": _GAP_REASON}):
        raise ValueError(problem)
    ranges = tuple(map(_range, found.pop("ranges")))
    files = tuple(map(_file, found.pop("files")))
    removed = tuple(RemovedRows(**each) for each in found.pop("removed", ()))
    replaced = tuple(found.pop("replaced", ()))
    commit = Commit(**found, ranges=ranges, files=files, removed=removed, replaced=replaced)
    if commit.kind not in KINDS:
        raise ValueError(f"commit of unknown kind {commit.kind!r}: update scopegate")
    return commit


def _range(entry: JsonObject) -> Range:
    reason = entry.pop(_GAP_REASON, "")
    return Range(**entry, gap_reason=reason)


def _file(entry: JsonObject) -> File:
    parts = tuple(FilePart(**each) for each in entry.pop("parts", ()))
    return File(**entry, parts=parts)
