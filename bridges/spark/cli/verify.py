"""`scopegate pipeline verify`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click
from click.core import ParameterSource

from bridges.spark.cli.defaults import kafka_options, settings
from bridges.spark.cli.local_path import ArchiveText, located
from bridges.spark.cli.options import archive_argument, errors_reported, topic_addresses, unknown_mappings
from gateway.plural import counted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bridges.spark.archive.storage.paths import StoragePath
    from bridges.spark.archive.verification import VerifyVerdict
    from policies.rules import CompiledPolicy

_COMPARISON: Final = {"topics": "--topic", "bootstrap": "--kafka", "cluster": "--cluster", "sample": "--sample"}


@click.command(epilog="Exit codes: 0 no errors; 1 errors (reported on stderr); 2 incorrect use of the command.")
@archive_argument
@click.option(
    "--against", type=click.Choice(["kafka"]),
    help="Also compare with the topics: offsets that the archive lacks, and a sample of the records.",
)  # fmt: skip
@kafka_options
@click.option(
    "--topic", "topics", multiple=True, metavar="TOPIC[=ADDRESS]",
    help="With --against: a topic and its address in the archive; may be repeated.",
)  # fmt: skip
@click.option("--sample", default=1000, show_default=True, type=click.IntRange(0), help="With --against: records of "
    "each partition that are read again and compared byte for byte.")
def verify(
    archive: ArchiveText, against: str | None, bootstrap: str | None, policy: CompiledPolicy | None,
    cluster: str | None, topics: tuple[str, ...], sample: int,
) -> None:  # fmt: skip
    """Verify that ARCHIVE has every offset of its ranges once, from its files and its manifest.

    Reports gaps and overlaps; rows that are missing, duplicated or out of range; files that are missing, changed or
    unknown. With --against kafka, reports events of the topics that the archive does not have, and records that differ.
    """
    if not against:
        _check_unused(click.get_current_context())
    elif not topics:
        raise click.UsageError("name the topics to compare with: --topic TOPIC[=ADDRESS]")
    named = topic_addresses(topics)
    kafka = settings(bootstrap, policy, cluster) if against else None
    with errors_reported():
        from bridges.spark import jobs

        place = located(archive)
        found = jobs.verify(place)
        _print(found)
        failed = bool(found.problems)
        if kafka is not None:
            failed |= _compare(place, kafka, named, sample)
    sys.exit(1 if failed else 0)


def _check_unused(context: click.Context) -> None:
    """Raise `click.UsageError` for an option that only a comparison reads: who gives it believes that there is one."""
    for name, option in _COMPARISON.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{option} is only for a comparison with topics: add --against kafka")


def _print(found: VerifyVerdict) -> None:
    for each in found.ranges:
        what = f"offsets {each.start} to {each.end - 1}" if each.end > each.start else f"begins at offset {each.start}"
        click.echo(f"{each.address}, partition {each.partition}: {what}, {counted(each.rows, 'event')}")
    files, commits = counted(found.files, "file"), counted(found.commits, "commit")
    click.echo(f"{counted(found.rows, 'event')} in {files} of {commits}")
    if found.removed:
        kinds = ", ".join(f"{rows} by {kind}" for kind, rows in found.removed)
        total = sum(rows for _, rows in found.removed)
        click.echo(f"{counted(total, 'event was', 'events were')} removed: {kinds}")
    if found.unknown:
        click.echo(unknown_mappings(found.unknown))
    for problem in found.problems:
        click.echo(f"wrong: {problem}", err=True)


def _compare(archive: StoragePath, kafka: Mapping[str, str], topics: Mapping[str, str], sample: int) -> bool:
    """Whether a topic differs from the archive."""
    from bridges.spark import jobs

    failed = False
    for each in jobs.compare_topics(archive, kafka, topics, sample):
        offsets = counted(each.behind, "offset of the topic is", "offsets of the topic are")
        behind = f", {offsets} not archived yet" if each.behind else ""
        compared = f"{counted(each.rows, 'event')}, {each.compared} compared with the topic{behind}"
        click.echo(f"{each.address}, partition {each.partition}: {compared}")
        for problem in each.problems:
            click.echo(f"wrong: {problem}", err=True)
        failed |= bool(each.problems)
    return failed
