"""Runs commands of `scopegate pipeline` in sequence, in a process that keeps Java running between them.

Each command behaves as on the command line, but starts faster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Final, NamedTuple

WORKER: Final = f"{__name__.rpartition('.quickstart.')[0]}.cli.worker"
"""The module that the process runs."""
_INTERPRETED: Final = "-Dspark.sql.codegen.wholeStage=false -Dspark.sql.codegen.factoryMode=NO_CODEGEN"
_JAVA: Final = f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC {_INTERPRETED}"
"""JVM options for a fast start: Java runs only for a minute, and would compile code for each of some small queries."""


class CommandResult(NamedTuple):
    """Exit code and output of a command."""

    code: int
    out: str
    err: str


class CommandRunner:
    """The process that runs commands; the output of Spark and Java goes to the file `log`."""

    def __init__(self, log: Path) -> None:
        self._log: Final = log
        self._child: subprocess.Popen[str] | None = None

    def run(self, words: list[str]) -> CommandResult:
        """Run a command; if the process ends, the result has its exit code."""
        child = self._child = self._child or self._start()
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(json.dumps(words) + "\n")
            child.stdin.flush()
            answer = child.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            self._child = None
            return CommandResult(child.wait(), "", self._log.read_text(errors="replace")[-300:])
        return CommandResult(*json.loads(answer))

    def _start(self) -> subprocess.Popen[str]:
        environ = {"JDK_JAVA_OPTIONS": _JAVA, **os.environ}
        with self._log.open("w") as log:
            return subprocess.Popen(  # noqa: S603
                [sys.executable, "-m", WORKER],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environ,
                start_new_session=True,
            )  # fmt: skip

    def close(self) -> None:
        """End the process."""
        child, self._child = self._child, None
        if child is not None and child.stdin is not None:
            child.stdin.close()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
