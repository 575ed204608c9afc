"""Runs commands of `scopegate pipeline` one after the other in a process of its own, whose Java stays between them.

`python -m bridges.spark.quickstart.worker` reads a line of JSON for each command, its words, and answers with a line of
JSON: exit code, output, errors. Each command is what anybody would type; it only starts faster.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, Final, NamedTuple

_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For a Java that lives a minute."""


class Said(NamedTuple):
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


class Commands:
    """The process; `log` gets what Spark and Java say."""

    def __init__(self, log: Path) -> None:
        self._log: Final = log
        self._child: subprocess.Popen[str] | None = None

    def run(self, words: list[str]) -> Said:
        """Run one; a process that dies of it is an exit code, too."""
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
            return Said(child.wait(), "", self._log.read_text(errors="replace")[-300:])
        return Said(*json.loads(answer))

    def _start(self) -> subprocess.Popen[str]:
        environ = {"JDK_JAVA_OPTIONS": _JAVA, **os.environ}
        with self._log.open("w") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "bridges.spark.quickstart.worker"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=environ,
                start_new_session=True,
            )  # fmt: skip

    def close(self) -> None:
        """End it."""
        child, self._child = self._child, None
        if child is not None and child.stdin is not None:
            child.stdin.close()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what anything below Python prints is no answer
    for line in sys.stdin:
        answers.write(json.dumps(_run(json.loads(line))) + "\n")
        answers.flush()


def _run(words: list[str]) -> tuple[int, str, str]:
    from gateway.cli.pipeline import pipeline

    out, err = io.StringIO(), io.StringIO()
    code: Any = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            pipeline.main(words, prog_name="scopegate pipeline")
        except SystemExit as ended:
            code = ended.code or 0
    return code, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    _serve()
