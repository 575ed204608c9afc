"""Options of the commands that open a Spark session and need no Kafka: `report` and `simulate`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import click


def session_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say which Spark; `conf` is handed over as a mapping."""
    for option in (
        click.option(
            "--conf", multiple=True, metavar="KEY=VALUE", callback=_pairs,
            help="A setting of Spark; may be repeated.",
        ),
        click.option("--master", default="local[*]", show_default=True, help="Spark's master."),
    ):  # fmt: skip
        command = option(command)
    return command


def _pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> Mapping[str, str]:
    for pair in value:
        if "=" not in pair:
            raise click.UsageError(f"--conf {pair!r} is not KEY=VALUE", ctx)
    return dict(pair.split("=", 1) for pair in value)
