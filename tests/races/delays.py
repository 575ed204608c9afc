"""Random waits in all processes of a run: they change who is first, and how long it takes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from tests.support.project.parts import ROOT

SOURCE = ROOT / "tests" / "races" / "delays.c"
LIBRARY = ROOT / "build" / "delays.so"
WARNINGS = ("-Wall", "-Wextra", "-Werror")


def environment(library: Path = LIBRARY) -> dict[str, str]:
    """Compile the library; return what a process and those that it starts need to load it (Linux).

    Raises subprocess.CalledProcessError: the compiler failed; what it said is on stderr.
    """
    library.parent.mkdir(exist_ok=True)
    command = ["gcc", "-O2", *WARNINGS, "-shared", "-fPIC", str(SOURCE), "-o", str(library), "-ldl"]
    subprocess.run(command, check=True, timeout=60)
    return {**os.environ, "LD_PRELOAD": str(library)}
