"""`scopegate pipeline report`: the traffic of the gateway, as tables and as an HTML page."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import click

from bridges.spark.cli.local_path import ArchiveText, LocalPath, located
from bridges.spark.cli.options import TimeParam, archive_argument, errors_reported, session_options


@click.command(epilog="Exit codes: 0 done; 1 failed (reported on stderr); 2 incorrect use of the command.")
@archive_argument
@click.option("--out", required=True, type=LocalPath(path_type=Path), help="Folder for the report; an older report "
    "is replaced.")
@click.option("--address", "addresses", multiple=True, help="Only this address of the archive; may be repeated.")
@click.option(
    "--journal", "journals", multiple=True, metavar="ADDRESS|PATH",
    help="The journal: its address in the archive, another archive, or a file or folder of rows.  "
    "[default: scopegate.journal, if the archive has it]",
)  # fmt: skip
@click.option("--filter", "expression", help="Only archived events that match this AMQP SQL filter (docs/filters.md).")
@click.option(
    "--from", "--since", "since", type=TimeParam(), help="From this time on (ISO 8601; UTC if no zone is given)."
)
@click.option("--to", "--until", "until", type=TimeParam(), help="Before this time.")
@click.option("--show-keys", is_flag=True, help="Show record keys on the page; they are client data.")
@click.option("--skip-bad", is_flag=True, help="Skip records that are not journal rows.")
@session_options
def report(
    archive: ArchiveText, out: Path, addresses: tuple[str, ...], journals: tuple[str, ...], expression: str | None,
    since: datetime | None, until: datetime | None, show_keys: bool, skip_bad: bool, master: str,
    conf: Mapping[str, str],
) -> None:  # fmt: skip
    """Report the traffic in ARCHIVE: tables as Parquet, and report.html, one self-contained page.

    Shows traffic by scope, address, partition, group and outcome, the selectivity of filters, the latency from append
    to delivery, and lag over time. Requests, refusals and readers are recorded only in the gateway's journal
    (docs/journal.md): archive its topic, too.
    """
    with errors_reported():
        page = _run(archive, out, addresses, journals, expression, since, until, show_keys, skip_bad, master, conf)
    click.echo(page)


def _run(
    archive: ArchiveText, out: Path, addresses: tuple[str, ...], journals: tuple[str, ...], expression: str | None,
    since: datetime | None, until: datetime | None, show_keys: bool, skip_bad: bool, master: str,
    conf: Mapping[str, str],
) -> Path:  # fmt: skip
    from bridges.spark.archive.read import ArchiveSelection
    from bridges.spark.report.job import ReportRequest
    from bridges.spark.report.job import report as job
    from bridges.spark.session import SparkEngine

    engine = SparkEngine(master, conf)
    selection = ArchiveSelection(addresses, since, until, filter=expression)
    request = ReportRequest(selection, journals, show_keys, skip_bad)
    say = lambda text: click.echo(f"… {text}", err=True)  # noqa: E731
    return job(located(archive), out, request, engine=engine, on_progress=say)
