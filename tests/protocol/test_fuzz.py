"""Arbitrary bytes and mutated conversations against the engine, in a child: a crash in C would end the process."""

from __future__ import annotations

import os
import subprocess
import sys

from tests.support.parts import ROOT

EXAMPLES = {"fast": 500, "deep": 10_000}[os.environ.get("SCOPEGATE_HYPOTHESIS", "fast")]


def test_nothing_a_peer_sends_raises_crashes_or_touches_others() -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.support.engine_fuzz", str(EXAMPLES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    assert f"survived {2 * EXAMPLES}" in done.stdout
