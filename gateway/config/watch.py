"""Notices changes of the policy file and of the files that it names: users, certificates, keys, secrets."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.rules import CompiledPolicy

Stamp = tuple[int, int, int]
"""Identifies a version of a file: modification time in ns, size in bytes, inode; of a link, those of its target."""
Stamps = Mapping[Path, Stamp | None]
"""None: the file was not there, or it is unknown which version of it was read."""


def stamp(path: Path) -> Stamp | None:
    """The version of a file that is there now; None if there is none."""
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


def stamps(paths: Iterable[Path]) -> dict[Path, Stamp | None]:
    """The versions that are there now."""
    return {path: stamp(path) for path in paths}


def named_stamps(policy: CompiledPolicy) -> dict[Path, Stamp | None]:
    """The versions of the files that a policy names; None for one that has changed since the policy was loaded.

    A pipe, which can be read only once, is left out.
    """
    found: dict[Path, Stamp | None] = {}
    for name, digest in policy.files.items():
        path = policy.path(name)
        if not path.is_file():
            continue
        before = stamp(path)
        try:
            same = hashlib.sha256(path.read_bytes()).digest() == digest
        except OSError:
            same = False
        found[path] = before if same else None
    return found


def changed_files(seen: Stamps, now: Stamps) -> list[Path]:
    """The files that are there in another version than the one that was seen."""
    return [path for path, found in now.items() if found is not None and found != seen.get(path)]
