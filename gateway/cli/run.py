"""`scopegate run`: serve a policy."""

from __future__ import annotations

import gc
import sys
from pathlib import Path

import click

from gateway.cli.common import FILE


@click.command(epilog="Exit codes: 0 drained and closed; 1 not started: a mistake in the policy, or a port in use.")
@FILE
def run(file: Path) -> None:
    """Serve a policy until SIGTERM or Ctrl-C.

    SIGHUP or a changed file reloads it. Links whose rule has not changed and still permits them stay open; links whose
    rule has changed are detached and may attach again. An invalid new policy is reported, and the old one stays in
    force.
    """
    gc.disable()  # imported modules stay alive, and scanning them takes time; `prepare_process` enables it again
    from gateway.server.process import run as serve

    sys.exit(serve(file))
