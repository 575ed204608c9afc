"""`scopegate pipeline`: the jobs of the data pipeline (docs/pipeline.md). What they do is in `bridges/spark`."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import click

from gateway.cli.local_path import LocalPath
from gateway.cli.pipeline_defaults import kafka_options, settings

_CODES: Final = (
    "Exit codes: 0 done; 1 failed or stopped before the end (reported on stderr); 2 incorrect use of the command."
)
_ARCHIVE: Final = click.argument("archive", type=LocalPath(path_type=Path, file_okay=False))


class _Pipeline(click.Group):
    """The commands in this module, and those of `bridges/spark/cli`, loaded through the composition root."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        from gateway.server.composition import pipeline_commands

        return sorted({*super().list_commands(ctx), *pipeline_commands()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        from gateway.server.composition import pipeline_commands

        return super().get_command(ctx, cmd_name) or pipeline_commands().get(cmd_name)


@click.group(cls=_Pipeline)
def pipeline() -> None:
    """Archive event streams, verify and replay archives, simulate policies, with Spark.

    Needs Java 17 and pip install 'scopegate[spark]'. Runs on this machine unless --master names a Spark cluster.
    """


def _spark_options(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--jars", type=LocalPath(path_type=Path), help="Folder with the jars of Spark's Kafka source."),
        click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A setting of Spark; may be repeated."),
        click.option("--master", default="local[*]", show_default=True, help="Spark's master."),
    ):
        command = option(command)
    return command


@pipeline.command(epilog=_CODES)
@click.option("--to", type=LocalPath(path_type=Path), help="Target folder.  [default: the cache]")
@click.option("--delta", is_flag=True, help="Also fetch those of Delta Lake.")
def jars(to: Path | None, delta: bool) -> None:
    """Fetch the four jars of Spark's Kafka source with Maven, once; other commands fetch them when needed."""
    with _said() as jobs:
        found = jobs.fetch_jars(to, delta=delta)
    click.echo(f"{len(found)} jars in {found[0].parent}")


@pipeline.command(epilog=_CODES)
@_ARCHIVE
@kafka_options
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[=ADDRESS]",
    help="A topic and its address in the archive; may be repeated.",
)  # fmt: skip
@click.option(
    "--amqp", multiple=True, metavar="OPTION=VALUE",
    help="Archive an event-stream node over AMQP instead of topics: options of the data source, at least url=… and "
    "address=….",
)  # fmt: skip
@click.option(
    "--start", default="earliest", show_default=True,
    help="Where to begin with a topic that is not in the archive yet: earliest, latest, or a time (ISO 8601).",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Stop at the end of the topics instead of running until SIGTERM.")
@click.option("--every", default=10.0, show_default=True, type=click.FloatRange(0.1), help="Seconds between checks "
    "of the topics.")
@click.option("--offsets", default=500_000, show_default=True, type=click.IntRange(1), help="Maximum number of "
    "offsets in one commit.")
@click.option("--file-size", default=128, show_default=True, type=click.IntRange(1), help="Approximate maximum size "
    "of a file, in MiB.")
@click.option(
    "--fail-on-data-loss/--no-fail-on-data-loss", "fail", default=True, show_default=True,
    help="Stop if offsets are gone from a topic before they were archived, or record the gap and continue.",
)  # fmt: skip
@click.option(
    "--fail-on-unknown-mapping/--no-fail-on-unknown-mapping", "fail_unknown", default=False, show_default=True,
    help="Stop at records written by a newer scopegate, or archive them unchanged and count them.",
)  # fmt: skip
@click.option(
    "--format", type=click.Choice(["parquet", "delta"]),
    help="delta: also a Delta table.  [default: as the archive is, parquet for a new one]",
)  # fmt: skip
@_spark_options
def archive(
    archive: Path, bootstrap: str | None, policy: Any, cluster: str | None, topics: tuple[str, ...],
    amqp: tuple[str, ...], start: str, once: bool, every: float, offsets: int, file_size: int, fail: bool,
    fail_unknown: bool, format: str | None, master: str, conf: tuple[str, ...], jars: Path | None,
) -> None:  # fmt: skip
    """Copy topics to Parquet files in the folder ARCHIVE: every section and record unchanged, each offset once.

    It continues where the archive ends, however the last run ended. SIGTERM stops it after the current commit, a
    second SIGTERM at once; in both cases readers never see partial data.
    """
    if amqp and _of_policy("topics"):
        topics = ()
    if bool(topics) == bool(amqp):
        raise click.UsageError("say what to archive: --topic TOPIC, or --amqp url=… --amqp address=…")
    named = {topic: address or topic for topic, _, address in (each.partition("=") for each in topics)}
    with _said() as jobs:
        common = {
            "bounds": jobs.Bounds(offsets, file_size * 1024 * 1024, fail, fail_unknown),
            "every": None if once else every,
            "format": format,
            "engine": _engine(jobs, master, conf, jars),
            "tell": _tell_commit,
        }
        if amqp:
            jobs.archive_node(archive, _pairs("--amqp", amqp), **common)
        else:
            jobs.archive_topics(archive, settings(bootstrap, policy, cluster), named, start=_start(start), **common)


@pipeline.command(epilog="Exit codes: 0 no errors; 1 errors (reported on stderr); 2 incorrect use of the command.")
@_ARCHIVE
def verify(archive: Path) -> None:
    """Verify that ARCHIVE has every offset of its ranges once, from its files and its manifest.

    Reports gaps and overlaps; rows that are missing, duplicated or out of range; files that are missing, changed or
    unknown.
    """
    with _said() as jobs:
        found = jobs.verify(archive)
    for each in found.ranges:
        what = f"offsets {each.start} to {each.end - 1}" if each.end > each.start else f"begins at offset {each.start}"
        click.echo(f"{each.address}, partition {each.partition}: {what}, {each.rows} events")
    click.echo(f"{found.rows} events in {found.files} files of {found.commits} commits")
    if found.unknown:
        click.echo(_unknown(found.unknown))
    for problem in found.problems:
        click.echo(f"wrong: {problem}", err=True)
    sys.exit(1 if found.problems else 0)


@pipeline.command(epilog=_CODES)
@_ARCHIVE
@click.option("--from", "address", required=True, help="The address in the archive.")
@kafka_options
@click.option("--topic", help="The topic to write to.")
@click.option(
    "--amqp", multiple=True, metavar="OPTION=VALUE",
    help="An AMQP address instead of a topic: url=… and address=…; user=… and passwordFile=… as in the data source.",
)  # fmt: skip
@click.option("--since", help="Events from this time on (ISO 8601; UTC if no zone is given).")
@click.option("--until", help="Events before this time.")
@click.option(
    "--offsets", multiple=True, metavar="PARTITION:START-END",
    help="Only this partition and these offsets, END exclusive; may be repeated.",
)  # fmt: skip
@click.option("--filter", "expression", help="An AMQP SQL filter, as on a link (docs/filters.md).")
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="Maximum number of events per second.  "
    "[default: no limit]")
@click.option("--name", help="Name under which the progress is stored.  [default: derived from the selection]")
@click.option("--dry-run", is_flag=True, help="Count what would be written, and write nothing.")
@_spark_options
def replay(
    archive: Path, address: str, bootstrap: str | None, policy: Any, cluster: str | None, topic: str | None,
    amqp: tuple[str, ...], since: str | None, until: str | None, offsets: tuple[str, ...], expression: str | None,
    rate: float | None, name: str | None, dry_run: bool, master: str, conf: tuple[str, ...], jars: Path | None,
) -> None:  # fmt: skip
    """Send archived events to a topic or an AMQP address: the same bytes, in the original order of each partition.

    For a topic, records and progress are one transaction: a run that was killed can be started again and writes each
    event once. At an AMQP address, an event counts once it is accepted; events in flight may be sent twice.
    """
    if (topic is None) == (not amqp):
        raise click.UsageError("say where the events go: --topic TOPIC, or --amqp url=… --amqp address=…")
    with _said() as jobs:
        selection = jobs.Selection((address,), _time(since), _time(until), dict(map(_offsets, offsets)), expression)
        common = {
            "name": name,
            "rate": rate,
            "dry_run": dry_run,
            "engine": _engine(jobs, master, conf, jars),
            "tell": lambda sent: click.echo(f"{sent} events written"),
        }
        if topic is None:
            count = jobs.replay_to_address(archive, selection, _pairs("--amqp", amqp), **common)
        else:
            count = jobs.replay_to_topic(archive, selection, settings(bootstrap, policy, cluster), topic, **common)
    click.echo(f"{count} events {'would be written' if dry_run else 'written in all'}")


def _engine(jobs: Any, master: str, conf: tuple[str, ...], jars: Path | None) -> Any:
    return jobs.Engine(master, _pairs("--conf", conf), jars, lambda text: click.echo(text, err=True))


def _tell_commit(commit: Any) -> None:
    rows = sum(each.rows for each in commit.ranges)
    click.echo(f"commit {commit.number}: {rows} events in {len(commit.files)} files")
    if commit.unknown:
        click.echo(f"commit {commit.number}: {_unknown(commit.unknown)}", err=True)


def _unknown(count: int) -> str:
    return f"{count} records are of a mapping that this version does not know: kept as they are, no section is read"


# -- what was given


def _of_policy(name: str) -> bool:
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP


@contextmanager
def _said() -> Iterator[Any]:
    """The jobs; what goes wrong in them is one sentence and exit code 1."""
    from gateway.server.composition import pipeline_jobs

    logging.getLogger().addHandler(logging.NullHandler())  # what py4j tells there is in the sentence, too
    try:
        jobs = pipeline_jobs()
    except ImportError as error:
        click.echo(f"{error.name} is not installed: pip install 'scopegate[spark]'", err=True)
        sys.exit(1)
    try:
        yield jobs
    except BrokenPipeError:  # nobody reads on: click ends it without a word
        raise
    except (jobs.PipelineError, OSError) as error:
        sys.unraisablehook = lambda _: None  # sockets to a Java that has died have nothing to add
        click.echo(jobs.sentence(error), err=True)
        sys.exit(1)


def _time(text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise click.UsageError(f"{text!r} is no time such as 2026-11-21T12:00:00Z") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _start(text: str) -> str | datetime:
    return text if text in ("earliest", "latest") else _time(text) or text


def _offsets(text: str) -> tuple[int, tuple[int, int]]:
    partition, colon, places = text.partition(":")
    start, dash, end = places.partition("-")
    if not (colon and dash and partition.isdigit() and start.isdigit() and end.isdigit()):
        raise click.UsageError(f"{text!r} is not PARTITION:START-END, such as 0:100-200")
    return int(partition), (int(start), int(end))


def _pairs(option: str, pairs: tuple[str, ...]) -> dict[str, str]:
    for pair in pairs:
        if "=" not in pair:
            raise click.UsageError(f"{option} {pair!r} is not NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs)
