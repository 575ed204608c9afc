"""Checks paths that the pipeline reads and writes: file systems, and for archives object stores. Pure."""

from __future__ import annotations

import re
from typing import Final

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")

_LOCAL: Final = re.compile(r"file:(/|///+|//localhost/+|)([^/].*)", re.IGNORECASE)
"""A URL of a file of this machine, with its path: relative if no slash is before it."""


_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_OBJECT_STORE: Final = re.compile(r"s3[an]?://", re.IGNORECASE)


def is_object_store(path: str) -> bool:
    """Whether it is the URL of an object store with the S3 API, where archives may be."""
    return _OBJECT_STORE.match(path) is not None


def archive_problem(path: str) -> str | None:
    """The mistake in the path of an archive; `None` for a folder or `s3://bucket/prefix`."""
    if not is_object_store(path):
        problem = url_problem(path)
        return problem and f"{problem}, or s3://bucket/prefix for an object store"
    bucket, _, prefix = path.split("://", 1)[1].rstrip("/").partition("/")
    if not _BUCKET.fullmatch(bucket):
        return f"{path} does not name a bucket: give s3://bucket/prefix"
    if any(part in ("", ".", "..") for part in prefix.split("/") if prefix):
        return f"{path}: a part of the path is empty, . or .., which object stores take literally"
    return None


def url_problem(path: str) -> str | None:
    """The mistake in a path that begins with a scheme (`file:`, `s3a:`, `hdfs:`, ...); `None` for other paths.

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
