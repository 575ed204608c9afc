"""`scopegate version`."""

from __future__ import annotations

import click

from gateway import __version__


@click.command()
def version() -> None:
    """Print the version, as --version does."""
    click.echo(f"scopegate {__version__}")
