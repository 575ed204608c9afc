"""The log of a process as fields: each line is read and parsed once, however often a test looks at all of them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any


class LogLines:
    """The lines of a file that grows."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self._complete: list[dict[str, Any]] = []

    def read(self) -> list[dict[str, Any]]:
        """Return all lines that are written to their ends; what is not JSON comes as `{"raw": line}`."""
        with self._file.open("rb") as file:
            file.seek(self._read)
            complete, newline, _ = file.read().rpartition(b"\n")
        self._read += len(complete + newline)
        self._complete += _parsed(complete)
        return [*self._complete]


def _parsed(data: bytes) -> Iterator[dict[str, Any]]:
    """The lines in these bytes as their fields."""
    return map(parsed, data.decode(errors="replace").splitlines())


def parsed(line: str) -> dict[str, Any]:
    """Return a log line as its fields."""
    with contextlib.suppress(ValueError):
        fields = json.loads(line)
        if isinstance(fields, dict):
            return fields
    return {"raw": line}
