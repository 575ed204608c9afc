"""Writes down which functions of the product run; a copy of the tree has it as its `sitecustomize`.

Every process that a test starts inherits two variables: `SCOPEGATE_REACHED`, the folder to write to, and
`SCOPEGATE_REACHED_BY`, the file of tests that runs. A line is `gateway/nodes/direct/node.py:120`: where a
function begins.
"""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from types import CodeType, FrameType

FOLDER, BY = "SCOPEGATE_REACHED", "SCOPEGATE_REACHED_BY"
PRODUCT = ("gateway/", "bridges/", "policies/")


class Tracer:
    """Writes a line for each function of the product that runs for the first time."""

    def __init__(self, root: str, folder: str) -> None:
        self._root = root + "/"
        self._folder = folder
        self._seen: dict[int, CodeType] = {}
        self._file = -1
        self.begin()

    def begin(self) -> None:
        """Write to the file of the tests that `SCOPEGATE_REACHED_BY` names, all functions anew."""
        if self._file >= 0:
            os.close(self._file)
        name = os.environ.get(BY, "collection").replace("/", "+")
        self._file = os.open(f"{self._folder}/{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._seen.clear()

    def install(self) -> None:
        """Trace this thread, and those that begin."""
        threading.settrace(self.called)
        sys.settrace(self.called)

    def called(self, frame: FrameType, _event: str, _argument: object) -> None:
        """Be the trace function of a thread; no lines are traced."""
        code = frame.f_code
        if id(code) not in self._seen:
            self._seen[id(code)] = code
            place = code.co_filename.removeprefix(self._root)
            if place.startswith(PRODUCT):
                os.write(self._file, f"{place}:{code.co_firstlineno}\n".encode())


def started() -> Tracer | None:
    """Trace this process if a folder is named."""
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    tracer = Tracer(str(Path(__file__).resolve().parent), folder)
    tracer.install()
    return tracer


active = started() if __name__ == "sitecustomize" else None
