"""Checks paths of folders that the pipeline reads and writes: they name a file system, never a URL. Pure."""

from __future__ import annotations

import re
from typing import Final

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")

_LOCAL: Final = re.compile(r"file:(/|///+|//localhost/+|)([^/].*)", re.IGNORECASE)
"""A URL of a file of this machine, with its path: relative if no slash is before it."""


def url_problem(path: str) -> str | None:
    """What is wrong with a path that begins with a scheme (`file:`, `s3a:`, `hdfs:`, ...); `None` for any other.

    Spark reads such a path as a URL and Python as a relative name: they would use two different folders.
    """
    found = _SCHEME.match(path)
    if found is None:
        return None
    scheme, local = found[1], _LOCAL.match(path)
    if local is not None:
        instead = f"give the path alone, {'/' if local[1] else ''}{local[2]}"
    else:
        instead = "give the path of a folder on a disk or a mounted file system, such as /data/archive"
    return f"{path} is a URL ({scheme}:), but only paths are accepted: {instead}"
