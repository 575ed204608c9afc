"""`scopegate pipeline compact`, `expire` and `erase`: maintenance of an archive's files."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING

import click

from bridges.spark.cli.local_path import ArchiveText, located
from bridges.spark.cli.options import EXIT_CODES, archive_argument, duration, errors_reported
from bridges.spark.report.page import format as words
from gateway.plural import counted

if TYPE_CHECKING:
    from bridges.spark.archive.maintenance.compaction import CompactionTask
    from bridges.spark.archive.maintenance.removal import Removal
    from bridges.spark.archive.manifest.commits import Commit
    from bridges.spark.archive.store import Archive

_ADDRESS = click.option("--address", help="Only this address of the archive.  [default: all]")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Print what would be done, and change nothing.")
_YES = click.option("--yes", is_flag=True, help="Delete rows without confirmation.")


class DateParam(click.ParamType[date]):
    """A UTC date (ISO 8601), as in the names of folders."""

    name = "date"

    def convert(self, value: str | date, param: click.Parameter | None, ctx: click.Context | None) -> date:
        """Parse the text of an option."""
        try:
            return value if isinstance(value, date) else date.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a date like 2026-11-21", param, ctx)


def _today() -> date:
    return datetime.now(UTC).date()


@click.command(epilog=EXIT_CODES)
@archive_argument
@click.option("--before", type=DateParam(), help="Only dates before this one (UTC).  [default: today]")
@_ADDRESS
@click.option("--file-size", default=256, show_default=True, type=click.IntRange(1), help="Approximate size of the new "
    "files, in MiB.")
@click.option("--grace", default="1h", show_default=True, callback=duration, metavar="DURATION", help="How long the "
    "replaced files stay for running reads; 0s: delete them at once.")
@_DRY_RUN
def compact(
    archive: ArchiveText, before: date | None, address: str | None, file_size: int, grace: float, dry_run: bool
) -> None:  # fmt: skip
    """Rewrite the small files of past dates of ARCHIVE into few large ones, with the same rows.

    Old and new rows are compared before the new files count. Readers are not disturbed: the old files are deleted after
    --grace, by the next run of this command or by the archive job, which may run at the same time. A run that was
    killed can be started again.
    """
    with errors_reported():
        from bridges.spark.archive.maintenance import compaction

        store, size = _opened(archive, address, dry_run=dry_run), file_size * 1024 * 1024
        if not dry_run:
            _finish(store, grace)
        tasks = compaction.plan(store.readable(), before or _today(), size, address)
        for number, task in enumerate(tasks, 1):
            what = f"{_named(task.folder)}: {_files(len(task.files), task.bytes)}"
            if dry_run:
                click.echo(f"would compact {what}")
                continue
            started = time.monotonic()
            commit = compaction.compact(store, task, size, grace)
            seconds = time.monotonic() - started
            new = _files(len(commit.files), sum(each.bytes for each in commit.files))
            click.echo(f"[{number}/{len(tasks)}] {what} -> {new} ({seconds:.1f} s)")
        _say_compacted(tasks, grace, dry_run=dry_run)


def _finish(store: Archive, grace: float) -> None:
    from bridges.spark.archive.maintenance import compaction
    from bridges.spark.archive.maintenance.lock import maintaining

    with maintaining(store):
        for commit in compaction.place_due(store):
            click.echo(f"{_named(commit.replaced[0])}: deleted the files that were replaced earlier")
        compaction.remove_leftovers(store, grace)


def _say_compacted(tasks: list[CompactionTask], grace: float, *, dry_run: bool) -> None:
    if not tasks:
        click.echo("nothing to compact")
    elif grace and not dry_run:
        due = datetime.fromtimestamp(time.time() + grace, UTC)
        click.echo(f"the replaced files stay until {due:%H:%M} UTC; the next run, or the archive job, deletes them")


@click.command(epilog=EXIT_CODES)
@archive_argument
@click.option("--before", type=DateParam(), required=True, help="Delete the dates before this one (UTC).")
@_ADDRESS
@_DRY_RUN
@_YES
def expire(archive: ArchiveText, before: date, address: str | None, dry_run: bool, yes: bool) -> None:
    """Delete whole dates of ARCHIVE: `verify` counts their events as removed, and they are not archived again.

    The date of an event is that of its timestamp, in UTC. Events without a date are never deleted.
    """
    with errors_reported():
        from bridges.spark.archive.maintenance import removal

        store = _opened(archive, address, dry_run=dry_run)
        found = removal.plan_expiry(store, before, address)
        if _confirmed(found, "delete", dry_run=dry_run, yes=yes):
            _print(store, removal.expire(store, found), "deleted")


@click.command(epilog=EXIT_CODES)
@archive_argument
@click.option("--key", help="The key, as text; - reads it from stdin, which keeps it out of the shell's history.")
@click.option("--key-hex", help="The key, in hexadecimal digits.")
@_ADDRESS
@_DRY_RUN
@_YES
def erase(
    archive: ArchiveText, key: str | None, key_hex: str | None, address: str | None, dry_run: bool, yes: bool
) -> None:  # fmt: skip
    """Delete all events with one record key from ARCHIVE, as data protection laws require.

    The manifest records who did it and when, the number of events by partition, and a salted hash of the key.
    `verify` counts these events as removed. Copies elsewhere, and the topic, are not touched.
    """
    if (key is None) == (key_hex is None):
        raise click.UsageError("name the key: --key TEXT, or --key-hex HEX")
    wanted = _key(key, key_hex)
    with errors_reported():
        from bridges.spark.archive.maintenance import removal

        store = _opened(archive, address, dry_run=dry_run)
        found = list(removal.plan_erasure(store, wanted, address))
        if _confirmed(found, "erase", dry_run=dry_run, yes=yes):
            _print(store, removal.erase(store, wanted, found), "erased")


def _opened(path: ArchiveText, address: str | None, *, dry_run: bool) -> Archive:
    from bridges.spark.archive.maintenance.lock import settle
    from bridges.spark.archive.store import Archive

    archive = Archive(located(path))
    archive.readable()  # reports errors of the archive before anything is written
    if address is not None:
        archive.check_address(address)
    if not dry_run:
        settle(archive)
    return archive


def _key(key: str | None, key_hex: str | None) -> bytes:
    if key == "-":
        return sys.stdin.buffer.read().removesuffix(b"\n")
    if key is not None:
        return key.encode()
    try:
        return bytes.fromhex(key_hex or "")
    except ValueError:
        raise click.UsageError(f"--key-hex {key_hex!r} is not a sequence of pairs of hexadecimal digits") from None


def _confirmed(found: list[Removal], verb: str, *, dry_run: bool, yes: bool) -> bool:
    for each in found:
        click.echo(f"{'would ' if dry_run else ''}{verb} {_named(each.folder)}: {counted(each.count, 'event')}")
    if not found:
        click.echo(f"nothing to {verb}")
    if not found or dry_run:
        return False
    total = sum(each.count for each in found)
    return yes or click.confirm(f"{verb} {counted(total, 'event')} for ever?", abort=True)


def _print(store: Archive, commits: Iterable[Commit], verb: str) -> None:
    for commit in commits:
        rows = sum(each.rows for each in commit.removed)
        click.echo(f"commit {commit.number}: {counted(rows, 'event')} of {_named(commit.replaced[0])} {verb}")
    if store.writer.keeps_versions:
        click.echo(
            "the bucket keeps versions of objects: the noncurrent ones may have these events until a lifecycle rule "
            "deletes them, or you do",
            err=True,
        )


def _files(count: int, size: int) -> str:
    return f"{counted(count, 'file')}, {words.size(size)}"


def _named(folder: str) -> str:
    from bridges.spark.archive.manifest.commits import address_of, date_of

    return f"{address_of(folder)}, {date_of(folder)}"
