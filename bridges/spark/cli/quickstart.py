"""`scopegate pipeline quickstart`: the guided walkthrough of the data pipeline (`make run-pipeline`)."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from bridges.spark.cli.local_path import LocalPath
from bridges.spark.errors import PipelineError


@click.command(epilog="Exit codes: 0 all steps were verified; 1 a step failed, or a requirement is missing.")
@click.option("--once", is_flag=True, help="Stop after the last step instead of continuing to serve.")
@click.option(
    "--folder", type=LocalPath(path_type=Path, file_okay=False), default=Path("scopegate-pipeline"), show_default=True,
    help="Folder for archive and report; files of an earlier run are replaced.",
)  # fmt: skip
@click.option(
    "--policy", type=LocalPath(exists=True, dir_okay=False, path_type=Path),
    help="A copy of policies/examples/pipeline.yaml with other ports.  [default: that file]",
)  # fmt: skip
def quickstart(once: bool, folder: Path, policy: Path | None) -> None:
    """Demonstrate the data pipeline: traffic, archive, verification, simulation, replay, report.

    Runs a gateway with an embedded Kafka, on this machine only; needs Java 17 and the extra [spark], and takes about a
    minute.
    """
    try:
        from bridges.spark.quickstart.walkthrough import start

        sys.exit(start(folder, policy, once=once))
    except PipelineError as error:
        click.echo(str(error), err=True)
    except ImportError as error:
        click.echo(f"{error.name} is not installed: pip install 'scopegate[spark]'", err=True)
    sys.exit(1)
