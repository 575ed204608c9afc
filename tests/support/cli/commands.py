"""Commands of `scopegate` that end by themselves, as people call them: arguments, input, output, errors, exit code."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from tests.support.gateway.gateway import SCOPEGATE, warm_parent
from tests.support.gateway.process import PATIENCE
from tests.support.project.parts import ROOT

Result = subprocess.CompletedProcess[str]


def command(*arguments: str) -> list[str]:
    """Return the arguments of a process of its own, for tests that need its pipes or signals."""
    return [sys.executable, "-c", SCOPEGATE, *arguments]


def run(*arguments: str, text: str = "", env: Mapping[str, str] | None = None, cwd: Path = ROOT) -> Result:
    """Run a command of the warm parent; its input is a file with the text."""
    with tempfile.TemporaryFile("w+") as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        given.write(text)
        given.seek(0)
        streams = given.fileno(), out.fileno(), errors.fileno()
        child = warm_parent().start_with(arguments, streams, {**os.environ, **(env or {})}, cwd)
        code = child.wait(PATIENCE)
        out.seek(0)
        errors.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read().decode(), errors.read().decode())
