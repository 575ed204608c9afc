"""What tells processes apart whose parent has imported the gateway and then forked."""

from __future__ import annotations

import subprocess
import sys

FORKS = """
import os
from gateway.server import gateway as service
from gateway.instance import instance
for _ in range(2):
    if os.fork() == 0:
        os.write(1, instance().encode() + b"\\n")
        os._exit(0)
    os.wait()
"""


def test_processes_that_were_forked_before_they_began_are_told_apart() -> None:
    """Counts of uses and names of links go by it, in shared state and at other containers."""
    found = subprocess.run([sys.executable, "-c", FORKS], capture_output=True, check=True, text=True).stdout.split()
    assert len(set(found)) == 2
