"""Arbitrary bytes and mutated conversations against the engine, in a child: a crash in C would end the process."""

from __future__ import annotations

import subprocess
import sys

from tests.support.plugins.examples import examples
from tests.support.project.parts import ROOT

EXAMPLES = examples(500)


def test_nothing_a_peer_sends_raises_crashes_or_touches_others() -> None:
    command = [sys.executable, "-X", "faulthandler", "-m", "tests.support.amqp.engine_fuzz", str(EXAMPLES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"exit code {done.returncode}\n{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    assert f"survived {2 * EXAMPLES}" in done.stdout
