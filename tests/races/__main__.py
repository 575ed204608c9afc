"""`python -m tests.races`: the suspects, twenty times in a row, with a busy loop on one of the cores.

With `--suite` it runs the whole suite once beside the loop instead. In place of the loop, `--delays` lets all
processes wait at random where they talk to others or ask for the time, which changes who is first, and `--pauses`
stops any of them, servers and Java included, for up to 0.3 s.
The loop is pinned (Linux) and ends with this program. Exit code: that of pytest, 0 when no round failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.races import delays
from tests.races.pauses import pausing
from tests.races.suspects import SUSPECTS
from tests.support.project.parts import ROOT

LOOP = "import os, sys; os.sched_setaffinity(0, {int(sys.argv[1])})\nwhile os.getppid() == int(sys.argv[2]): pass"
"""Ends by itself, too, should its parent be killed."""


@contextmanager
def busy(core: int) -> Iterator[None]:
    """Keep a core busy."""
    loop = subprocess.Popen([sys.executable, "-c", LOOP, str(core), str(os.getpid())])
    try:
        yield
    finally:
        loop.kill()
        loop.wait()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.races", description=__doc__)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", default="", help="suspects that contain this text")
    parser.add_argument("--suite", action="store_true", help="run all tests once instead")
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--delays", action="store_true", help="random waits in all processes instead of the loop")
    instead.add_argument("--pauses", action="store_true", help="pauses of any process instead of the loop")
    options, more = parser.parse_known_args()
    command = [sys.executable, "-m", "pytest", "--numprocesses", str(options.workers), "--dist", "loadfile"]
    if options.suite:
        command += ["--no-loadscope-reorder"]
    else:
        chosen = [each for each in SUSPECTS if options.only in each]
        if not chosen:
            parser.error(f"--only: no suspect contains {options.only!r}; tests/races/suspects.py lists them")
        command += ["-p", "tests.support.plugins.rounds", "--rounds", str(options.rounds), *chosen]
    command += ["--maxfail", "0", "-q", *more]
    if options.delays:
        return subprocess.run(command, cwd=ROOT, env=delays.environment(), check=False).returncode
    with pausing() if options.pauses else busy(min(os.sched_getaffinity(0))):
        return subprocess.run(command, cwd=ROOT, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
