"""`scopegate pipeline`: the jobs of the data pipeline (docs/pipeline.md)."""

from __future__ import annotations

from collections.abc import Mapping

import click

from bridges.spark.cli.archive import archive
from bridges.spark.cli.jars import jars
from bridges.spark.cli.replay import replay
from bridges.spark.cli.verify import verify


class _Pipeline(click.Group):
    """The commands of this module, and commands that are slow to import, which are imported on demand."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted({*super().list_commands(ctx), *_later()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, cmd_name) or _later().get(cmd_name)


def _later() -> Mapping[str, click.Command]:
    from bridges.spark.cli.maintenance import compact, erase, expire
    from bridges.spark.cli.quickstart import quickstart
    from bridges.spark.cli.report import report
    from bridges.spark.cli.simulate import simulate
    from bridges.spark.cli.views import views

    return {each.name or "": each for each in (compact, erase, expire, quickstart, report, simulate, views)}


@click.group(cls=_Pipeline, commands=[archive, jars, replay, verify])
def pipeline() -> None:
    """Archive event streams, verify and replay archives, simulate policies, with Spark.

    Needs Java 17 and pip install 'scopegate[spark]'. Runs on this machine unless --master names a Spark cluster.
    """
