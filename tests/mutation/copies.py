"""Copies of the tree in which the product may be broken, and pytest in them, bounded in time and memory."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.support.project.parts import ROOT

KEPT = ("gateway", "bridges", "policies", "tests", "docs", "deploy", "pyproject.toml", "Makefile", "README.md")
MEMORY = 8 << 30
"""Bytes of addresses for a process of the tests: a mutant that fills a list for ever is noticed first."""
PYTEST = f"""
import resource, sys, pytest
resource.setrlimit(resource.RLIMIT_AS, ({MEMORY}, {MEMORY}))
sys.exit(pytest.main(sys.argv[1:]))
"""
COLLECTED_NOTHING = 5


def copied(folder: Path) -> Path:
    """Return a copy of what the tests need; built modules come along, fetched parts are shared."""
    folder.mkdir()
    for name in KEPT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
        else:
            shutil.copy(source, folder / name)
    (folder / "build").mkdir()
    (folder / "build" / "parts").symlink_to((ROOT / "build" / "parts").resolve())
    return folder


def run(folder: Path, arguments: Sequence[str], seconds: float, env: Mapping[str, str] | None = None) -> str:
    """Run pytest in a copy: `passed`, `failed` or `timeout`; what it started ends with it.

    Raises RuntimeError: no test was collected.
    """
    command = [sys.executable, "-c", PYTEST, "-q", "--no-header", "-p", "no:cacheprovider", *arguments]
    own = {**os.environ, "PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
    with (folder / "pytest.log").open("wb") as log:
        child = subprocess.Popen(command, cwd=folder, env=own, stdout=log, stderr=log, start_new_session=True)
        try:
            code = child.wait(seconds)
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    if code == COLLECTED_NOTHING:
        raise RuntimeError(f"no tests: {arguments}")
    return "failed" if code else "passed"
