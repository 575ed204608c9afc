"""`scopegate pipeline jars`."""

from __future__ import annotations

from pathlib import Path

import click

from bridges.spark.cli.local_path import LocalPath
from bridges.spark.cli.options import EXIT_CODES, errors_reported


@click.command(epilog=EXIT_CODES)
@click.option("--to", type=LocalPath(path_type=Path), help="Target folder.  [default: the cache]")
@click.option("--delta", is_flag=True, hidden=True)  # kept from versions with jars of a Kafka source
def jars(to: Path | None, delta: bool) -> None:
    """Fetch the two jars of Delta Lake with Maven, once; `archive --format delta` fetches them when needed."""
    with errors_reported():
        from bridges.spark import jobs

        found = jobs.fetch_jars(to)
    click.echo(f"{len(found)} jars in {found[0].parent}")
