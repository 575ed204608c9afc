"""Lists what is below a folder or a prefix of an object store, at any depth, in one pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

from bridges.spark.archive.storage.paths import StoragePath


def names_below(base: StoragePath, wanted: Callable[[str], bool]) -> Iterator[str]:
    """All files below `base`, relative to it; `wanted`: the entries directly in it that are looked at.

    A folder that cannot be listed, and a link to a folder around it, come like files.
    """
    if isinstance(base, Path):
        with os.scandir(base) as entries:
            own = [each for each in entries if wanted(each.name)]
        for entry in own:
            yield from _files(entry, entry.name)
        return
    names = (path.relative_to(base) for path in base.below())
    yield from (name for name in names if wanted(name.partition("/")[0]))


def _files(entry: os.DirEntry[str], name: str) -> Iterator[str]:
    """A file, or all files below a folder; links to folders are followed, as readers of folders do."""
    if not _is_folder(entry) or _is_loop(entry):
        yield name
        return
    try:
        with os.scandir(entry.path) as entries:
            inner = list(entries)
    except FileNotFoundError:  # a job has removed it meanwhile
        return
    except OSError:
        yield name
        return
    for each in inner:
        yield from _files(each, f"{name}/{each.name}")


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _is_loop(entry: os.DirEntry[str]) -> bool:
    """Whether it links to a folder that it is in."""
    return entry.is_symlink() and Path(entry.path).parent.resolve().is_relative_to(Path(entry.path).resolve())
