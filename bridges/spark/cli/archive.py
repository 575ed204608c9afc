"""`scopegate pipeline archive`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bridges.spark.cli.defaults import kafka_options, settings
from bridges.spark.cli.local_path import ArchiveText, located
from bridges.spark.cli.options import (
    EXIT_CODES,
    TimeParam,
    amqp_options,
    archive_argument,
    duration,
    errors_reported,
    pause,
    spark_engine,
    spark_options,
    topic_addresses,
)
from bridges.spark.cli.progress import ArchiveReporter

if TYPE_CHECKING:
    from bridges.spark.archive.monitoring.metrics import ArchiveMetrics
    from bridges.spark.jobs.archive import Format
    from policies.rules import CompiledPolicy


def _listener(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, int] | None:
    host, _, port = (value or "").rpartition(":")
    if value is None:
        return None
    if not port.isdecimal() or int(port) > 65535:
        raise click.BadParameter(f"{value!r} is not a port, such as 9464 or 0.0.0.0:9464", ctx, param)
    return host or "127.0.0.1", int(port)


def _start(ctx: click.Context, param: click.Parameter, value: str) -> str | datetime:
    return value if value in ("earliest", "latest") else TimeParam().convert(value, param, ctx)


@click.command(epilog=EXIT_CODES)
@archive_argument
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
    "--start", metavar="TEXT", callback=_start, default="earliest", show_default=True,
    help="Where to begin with a topic that is not in the archive yet: earliest, latest, or a time (ISO 8601).",
)  # fmt: skip
@click.option("--once", is_flag=True, help="Stop at the end of the topics instead of running until SIGTERM.")
@click.option("--every", default="10s", show_default=True, callback=pause, metavar="DURATION",
    help="Pause between checks of the topics; a number without a unit is seconds.")
@click.option("--offsets", default=500_000, show_default=True, type=click.IntRange(1), help="Maximum number of "
    "offsets in one commit.")
@click.option("--file-size", default=128, show_default=True, type=click.IntRange(1), help="Approximate maximum size "
    "of a file, in MiB.")
@click.option(
    "--fail-on-data-loss/--no-fail-on-data-loss", "fail", default=True, show_default=True,
    help="Stop if offsets were deleted from a topic before they were archived, or record the gap and continue.",
)  # fmt: skip
@click.option(
    "--fail-on-unknown-mapping/--no-fail-on-unknown-mapping", "fail_unknown", default=False, show_default=True,
    help="Stop at records written by a newer scopegate, or archive them unchanged and count them.",
)  # fmt: skip
@click.option(
    "--format", type=click.Choice(["parquet", "delta", "iceberg"]),
    help="delta, iceberg: also maintain such a table.  [default: the archive's format; parquet for a new one]",
)  # fmt: skip
@click.option("--topic-settings", is_flag=True, help="Also archive partitions, replicas and settings of the topics.")
@click.option(
    "--groups", multiple=True, metavar="PATTERN",
    help="Also archive the topics' settings, and the positions of consumer groups that match (*: all); may be "
    "repeated.",
)  # fmt: skip
@click.option(
    "--wait", default="1m", show_default=True, callback=duration, metavar="DURATION",
    help="With --once: maximum duration of an outage of Kafka or Spark. Without --once, there is no limit.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON for each commit.")
@click.option(
    "--metrics", metavar="[HOST:]PORT", callback=_listener,
    help="Serve Prometheus metrics at this port, on 127.0.0.1 unless a host is given.",
)  # fmt: skip
@spark_options
def archive(
    archive: ArchiveText, bootstrap: str | None, policy: CompiledPolicy | None, cluster: str | None,
    topics: tuple[str, ...], amqp: tuple[str, ...], start: str | datetime, once: bool, every: float, offsets: int,
    file_size: int, fail: bool, fail_unknown: bool, format: Format | None, topic_settings: bool,
    groups: tuple[str, ...], wait: float, as_json: bool, metrics: tuple[str, int] | None,
    master: str, conf: Mapping[str, str], jars: Path | None,
) -> None:  # fmt: skip
    """Copy topics to Parquet files in the folder ARCHIVE: every section and record unchanged, each offset once.

    It continues where the archive ends, however the last run ended. SIGTERM stops it after the current commit, a
    second SIGTERM at once; in both cases readers never see partial data.
    """
    if amqp and _from_policy("topics"):
        topics = ()
    if bool(topics) == bool(amqp) or (amqp and (groups or topic_settings)):
        of_kafka = "; --groups and --topic-settings need --topic" if groups or topic_settings else ""
        raise click.UsageError(f"name what to archive: --topic TOPIC, or --amqp url=… --amqp address=…{of_kafka}")
    named = topic_addresses(topics)
    with errors_reported():
        from bridges.spark import jobs

        archived = partial(jobs.archive_node, located(archive), amqp_options(amqp))
        if topics:
            kafka, wanted = settings(bootstrap, policy, cluster), groups if groups or topic_settings else None
            archived = partial(jobs.archive_topics, located(archive), kafka, named, start=start, groups=wanted)
        reporter = ArchiveReporter(as_json=as_json, metrics=_served(metrics))
        try:
            archived(
                bounds=jobs.LogBounds(
                    offsets, file_size * 1024 * 1024, fail_on_loss=fail, fail_on_unknown=fail_unknown
                ),
                every=None if once else every,
                format=format,
                engine=spark_engine(master, conf, jars),
                observer=reporter,
                patience=wait if once else None,
            )
        finally:
            reporter.close()


def _from_policy(name: str) -> bool:
    """Whether the value of an option comes from the policy's section `pipeline`."""
    return click.get_current_context().get_parameter_source(name) is click.core.ParameterSource.DEFAULT_MAP


def _served(at: tuple[str, int] | None) -> ArchiveMetrics | None:
    """Serve metrics at this host and port. Raises `PipelineError`."""
    if at is None:
        return None
    from bridges.spark.archive.monitoring.metrics import ArchiveMetrics

    metrics = ArchiveMetrics(time.time)
    metrics.serve(*at)
    return metrics
