"""`scopegate pipeline replay`: archived events to a topic or an AMQP address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bridges.spark.cli.defaults import kafka_options, settings
from bridges.spark.cli.local_path import ArchiveText, LocalPath, located
from bridges.spark.cli.options import (
    EXIT_CODES,
    TimeParam,
    amqp_options,
    archive_argument,
    errors_reported,
    spark_engine,
    spark_options,
)
from gateway.plural import counted

if TYPE_CHECKING:
    from policies.rules import CompiledPolicy


@click.command(epilog=EXIT_CODES)
@archive_argument
@click.option("--from", "address", required=True, help="The address in the archive.")
@kafka_options
@click.option("--topic", help="The topic to write to.")
@click.option(
    "--amqp", multiple=True, metavar="OPTION=VALUE",
    help="An AMQP address instead of a topic: url=… and address=…; user=… and passwordFile=… as in the data source.",
)  # fmt: skip
@click.option("--since", type=TimeParam(), help="Events from this time on (ISO 8601; UTC if no zone is given).")
@click.option("--until", type=TimeParam(), help="Events before this time.")
@click.option(
    "--offsets", multiple=True, metavar="PARTITION:START-END",
    help="Only this partition and these offsets, END exclusive; may be repeated.",
)  # fmt: skip
@click.option("--filter", "expression", help="An AMQP SQL filter, as on a link (docs/filters.md).")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Maximum number of events per second, in all.  "
    "[default: no limit]")
@click.option("--create-topic", "create", is_flag=True, help="Create the topic with the archived partitions, replicas "
    "and settings, unless it exists.")
@click.option(
    "--groups", multiple=True, metavar="PATTERN",
    help="At the end, move matching consumer groups (*: all archived ones) to their positions in the new "
    "topic; may be repeated.",
)  # fmt: skip
@click.option(
    "--offset-map", "offset_map", type=LocalPath(path_type=Path, dir_okay=False),
    help="At the end, write the offsets of the events in the archive and in the topic to this file, as lines of JSON.",
)  # fmt: skip
@click.option("--name", help="Name under which the progress is stored.  [default: derived from the selection]")
@click.option("--dry-run", is_flag=True, help="Count what would be written, and write nothing.")
@spark_options
def replay(
    archive: ArchiveText, address: str, bootstrap: str | None, policy: CompiledPolicy | None, cluster: str | None,
    topic: str | None, amqp: tuple[str, ...], since: datetime | None, until: datetime | None,
    offsets: tuple[str, ...], expression: str | None,
    rate: float | None, create: bool, groups: tuple[str, ...], offset_map: Path | None, name: str | None, dry_run: bool,
    master: str, conf: Mapping[str, str], jars: Path | None,
) -> None:  # fmt: skip
    """Send archived events to a topic or an AMQP address: the same bytes, in the original order of each partition.

    For a topic, the tasks of a Spark job write records and progress in transactions: a run that was killed can be
    started again and writes each event once. At an AMQP address, an event counts once it is accepted; events in flight
    may be sent twice. AMQP addresses and dry runs need no Spark.
    """
    if (topic is None) == (not amqp):
        raise click.UsageError("name the target of the events: --topic TOPIC, or --amqp url=… --amqp address=…")
    if amqp and (create or groups or offset_map):
        raise click.UsageError("--create-topic, --groups and --offset-map need a --topic")
    with errors_reported():
        from bridges.spark import jobs

        selection = jobs.ArchiveSelection((address,), since, until, dict(map(_offsets, offsets)), expression)
        replayed: Callable[..., int] = partial(jobs.replay_to_address, located(archive), selection, amqp_options(amqp))
        if topic is not None:
            kafka, engine = settings(bootstrap, policy, cluster), spark_engine(master, conf, jars)
            replayed = partial(
                jobs.replay_to_topic, located(archive), selection, kafka, topic, engine=engine, create=create,
                groups=groups, offset_map=offset_map,
            )  # fmt: skip
        count = replayed(
            name=name, rate=rate, dry_run=dry_run,
            on_progress=lambda sent: click.echo(f"{counted(sent, 'event')} written"),
        )
    click.echo(f"{counted(count, 'event')} {'would be written' if dry_run else 'written in all'}")


def _offsets(text: str) -> tuple[int, tuple[int, int]]:
    partition, colon, places = text.partition(":")
    start, dash, end = places.partition("-")
    if not (colon and dash and partition.isdecimal() and start.isdecimal() and end.isdecimal()):
        raise click.UsageError(f"{text!r} is not PARTITION:START-END, such as 0:100-200")
    return int(partition), (int(start), int(end))
