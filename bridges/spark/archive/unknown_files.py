"""Files in an archive's folder that no commit has, at any depth: readers of Parquet folders may read them.

Spark reads files of any name, except those that begin with `_` or `.`; duckdb reads these as well, if they end in
`.parquet`, below the folder of an address.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from bridges.spark.archive.manifest.disk import is_of_manifest
from bridges.spark.archive.storage.listing import names_below
from bridges.spark.archive.store import MANIFEST, Archive

_LINKING: Final = re.compile(r"\.\d{8,}-[^/]*\.parquet")
"""A file that is copied to its place, where the file system has no hard links."""


def unknown_files(archive: Archive, known: Callable[[str], bool], number: int) -> list[str]:
    """The problems with files that are not `known`, of the commits up to `number`, and of no later commit."""
    names = names_below(archive.path, _is_listed)
    strange = sorted(each for each in names if not (_is_of_manifest(each) or _is_skipped(each) or known(each)))
    pending = {each for each in strange if archive.writer.pending(each.rpartition("/")[2])}
    later = {file.path for commit in archive.history().commits(number) for file in commit.files}
    return [f"{archive.path / each}: in no commit" for each in strange if each not in later | pending]


def _is_of_manifest(name: str) -> bool:
    return name.startswith(f"{MANIFEST}/") and is_of_manifest(name.removeprefix(f"{MANIFEST}/"))


def _is_listed(name: str) -> bool:
    """Whether a file or folder directly in the archive's folder concerns its readers."""
    return name == MANIFEST or not _is_hidden(name)


def _is_skipped(name: str) -> bool:
    """Whether no reader reads a file, or only for the moment until it is in place."""
    last = name.rpartition("/")[2]
    if name.startswith(f"{MANIFEST}/"):
        return False
    return (_is_hidden(last) and not last.endswith(".parquet")) or _LINKING.fullmatch(last) is not None


def _is_hidden(name: str) -> bool:
    """Whether Spark skips a name; `_x=1` is a partition to it."""
    return name.startswith(".") or (name.startswith("_") and "=" not in name)
