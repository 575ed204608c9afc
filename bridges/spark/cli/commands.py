"""The commands of `scopegate pipeline`; each imports Spark when it runs, so that help needs neither Spark nor Java."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import click

from bridges.spark.quickstart.cli import quickstart
from bridges.spark.report.cli import report
from bridges.spark.simulate.cli import simulate

COMMANDS: Final[Mapping[str, click.Command]] = {each.name or "": each for each in (quickstart, report, simulate)}
