"""Runs commands of `scopegate pipeline` in one process, which keeps Java running between them.

`python -m bridges.spark.cli.worker` reads the arguments of a command as a line of JSON and answers with a line of JSON:
exit code, output, errors (`bridges.spark.quickstart.command_runner` is the other end).
"""

from __future__ import annotations

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout

from bridges.spark.cli.pipeline import pipeline


def _serve() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of Java and C libraries must not mix with the answers
    for line in sys.stdin:
        answers.write(json.dumps(_run(json.loads(line))) + "\n")
        answers.flush()


def _run(words: list[str]) -> tuple[str | int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code: str | int = 0
    with redirect_stdout(out), redirect_stderr(err):
        try:
            pipeline.main(words, prog_name="scopegate pipeline")
        except SystemExit as ended:
            code = ended.code or 0
    return code, out.getvalue(), err.getvalue()


if __name__ == "__main__":
    _serve()
