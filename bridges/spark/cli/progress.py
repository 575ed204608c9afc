"""The output of `scopegate pipeline archive`: one updated line on a terminal, else a line per commit, or JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import click

from bridges.spark.cli.options import unknown_mappings
from bridges.spark.report.page import format as words
from gateway.plural import counted

if TYPE_CHECKING:
    from bridges.spark.archive.contents.ranges import Range
    from bridges.spark.archive.manifest.commits import Commit
    from bridges.spark.archive.monitoring.metrics import ArchiveMetrics
    from bridges.spark.archive.monitoring.progress import ArchiveProgress

_RENEW: Final = "\r\x1b[2K"
"""Moves the cursor to the start of the line, and clears it."""


class ArchiveReporter:
    """An observer of the archive job that prints its progress."""

    def __init__(self, *, as_json: bool, metrics: ArchiveMetrics | None = None) -> None:
        self._as_json: Final = as_json
        self._metrics: Final = metrics
        self._terminal: Final = not as_json and sys.stdout.isatty()
        self._lasting = False

    def committed(self, progress: ArchiveProgress) -> None:
        """Print the progress."""
        if self._metrics is not None:
            self._metrics.committed(progress)
        if self._as_json:
            click.echo(json.dumps(as_json(progress)))
        elif self._terminal:
            click.echo(f"{_RENEW}{as_text(progress)}", nl=False)
        else:
            click.echo(as_text(progress))
        for text in () if self._as_json else _warnings(progress.commit):
            self._line(f"commit {progress.commit.number}: {text}")

    def idle(self) -> None:
        """Do nothing: idle steps show only in the metrics."""
        if self._metrics is not None:
            self._metrics.idle()

    def outage(self, text: str) -> None:
        """Print a line on stderr."""
        self._lasting = not self._lasting
        if self._metrics is not None:
            self._metrics.outage(lasts=self._lasting)
        self._line(json.dumps({"outage": self._lasting, "text": text}) if self._as_json else text)

    def close(self) -> None:
        """End the output, since the job has ended."""
        if self._terminal:
            click.echo()

    def _line(self, text: str) -> None:
        click.echo(f"{_RENEW}{text}" if self._terminal else text, err=True)


def _warnings(commit: Commit) -> Iterator[str]:
    """What the operator has to know about a commit."""
    if commit.unknown:
        yield unknown_mappings(commit.unknown)
    for each in _lost(commit):
        span = f"offsets {each.start} to {each.end - 1}"
        yield f"{each.address}, partition {each.partition}: {span} were lost before they were archived"


def _lost(commit: Commit) -> list[Range]:
    return [each for each in commit.ranges if each.gap_reason]


def as_text(progress: ArchiveProgress) -> str:
    """The progress as one line."""
    commit = progress.commit
    speed = f"{words.size(progress.bytes)}, {progress.rows_per_second:,.0f}/s"
    behind = ""
    if events := progress.behind_events:
        age = "" if progress.behind_seconds is None else f" ({_age(progress.behind_seconds)})"
        behind = f", {events:,} behind{age}"
    what = f"{counted(commit.rows, 'event')} in {counted(len(commit.files), 'file')}"
    return f"commit {commit.number}: {what}, {speed}{behind}"


def _age(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:,.0f} {unit}"
    return f"{seconds:.0f} s"


def as_json(progress: ArchiveProgress) -> dict[str, object]:
    """The progress as a JSON object."""
    commit = progress.commit
    return {
        "commit": commit.number,
        "rows": commit.rows,
        "bytes": progress.bytes,
        "files": len(commit.files),
        "seconds": round(progress.seconds, 3),
        "rows_per_second": round(progress.rows_per_second, 1),
        "behind_events": progress.behind_events,
        "behind_seconds": None if progress.behind_seconds is None else round(progress.behind_seconds, 3),
        "unknown_mappings": commit.unknown,
        "lost_offsets": sum(each.end - each.start for each in _lost(commit)),
    }
