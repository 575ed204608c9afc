"""`scopegate quickstart`: a demonstration with stock clients."""

from __future__ import annotations

import sys
from pathlib import Path

import click


@click.command(epilog="Exit codes: 0 all steps were verified; 1 a step failed.")
@click.option("--once", is_flag=True, help="Exit after the transcript instead of continuing to serve.")
@click.option(
    "--policy",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A copy of policies/examples/quickstart.yaml with other ports.  [default: that file]",
)
def quickstart(once: bool, policy: Path | None) -> None:
    """Start a gateway with two scopes and an embedded Kafka, and watch stock clients use it."""
    from gateway.quickstart import run as start

    sys.exit(start(once, policy))
