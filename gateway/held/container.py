"""The memory budget of this process: from its container (cgroup v2 or v1) or the policy."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

DEFAULT: Final = 2**30
"""Bytes where neither the policy nor a container sets a limit."""
_BASE: Final = 96 * 2**20
"""Bytes of a process that holds no message."""
_UNLIMITED: Final = 2**60
"""cgroup v1 shows a number near 2^63 for no limit."""
_V2: Final = "/sys/fs/cgroup"
_V1: Final = "/sys/fs/cgroup/memory"
ReadText = Callable[[str], str]


def read_text(path: str) -> str:
    """The text of a file; raises OSError."""
    return Path(path).read_text(encoding="ascii")


def container_limit(read: ReadText = read_text) -> int | None:
    """The smallest limit from this process's control group up to the root, in bytes; None: no limit."""
    found = [limit for path in _files(read) if (limit := _limit(read, path)) is not None]
    return min(found, default=None)


def budget(memory: int | None, read: ReadText = read_text) -> int:
    """Bytes that may be held for peers, of `memory` (None: the limit of the container, or 1 GiB).

    The process itself is subtracted; of the rest a fifth is reserved for what cannot be counted exactly.
    """
    whole = memory or container_limit(read) or DEFAULT
    return max((whole - _BASE) * 4 // 5, whole // 8)


def _files(read: ReadText) -> list[str]:
    try:
        lines = read("/proc/self/cgroup").splitlines()
    except OSError:
        return []
    files: list[str] = []
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if number == "0":
            files += _upwards(_V2, path, "memory.max")
        elif "memory" in controllers.split(","):
            files += _upwards(_V1, path, "memory.limit_in_bytes")
    return files


def _upwards(root: str, path: str, name: str) -> list[str]:
    parts = [part for part in path.split("/") if part]
    return ["/".join([root, *parts[:count], name]) for count in range(len(parts), -1, -1)]


def _limit(read: ReadText, path: str) -> int | None:
    try:
        text = read(path).strip()
    except OSError:
        return None
    return int(text) if text.isdecimal() and int(text) < _UNLIMITED else None
