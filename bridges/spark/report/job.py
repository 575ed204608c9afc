"""The job of the report: an archive and its journal become Parquet tables and one HTML page (docs/pipeline.md).

The folder appears when the report is complete; an existing folder is replaced if it is a report.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.archive.store import Archive
from bridges.spark.errors import PipelineError, sentence
from bridges.spark.report.chapters.builder import ReportTerms, Tables
from bridges.spark.report.chapters.chapters import chapters
from bridges.spark.report.health import archive_health
from bridges.spark.report.key_figures import key_figures
from bridges.spark.report.page import format as words
from bridges.spark.report.page import tables as report_tables
from bridges.spark.report.page.html import Page, render
from bridges.spark.report.period import Period, period
from bridges.spark.session import LOCAL, check_java, session
from bridges.spark.simulate import job, journal_checks
from bridges.spark.simulate.job import JOURNAL
from gateway import __version__
from policies.values.folders import url_problem

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from bridges.spark.session import SparkEngine

PAGE: Final = "report.html"
TABLES: Final = "tables"

_DAY: Final = 86_400
_ALL: Final = ArchiveSelection()


@dataclass(frozen=True)
class ReportRequest:
    """The selection of a report."""

    selection: ArchiveSelection = _ALL
    """The selection of archived rows; its times also select rows of the journal."""
    journals: Sequence[str] = ()
    """Addresses of the archive, or other journals as for `simulate`; default: the archive's own, if it has one."""
    keys: bool = False
    """Show record keys on the page; they are client data."""
    skip_bad: bool = False
    """Skip records that are not journal rows."""


def report(
    path: StoragePath,
    out: Path,
    request: ReportRequest = ReportRequest(),
    *,
    engine: SparkEngine | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Path:
    """Write the report of the archive at `path` into the folder `out`; return its page. Raises `PipelineError`."""
    _check(out)
    archive = Archive(path)
    archive.readable()  # reports errors of the archive before Spark starts
    check_java()
    on_progress("starting Spark")
    with session("report", engine or LOCAL) as spark:
        return _written(spark, archive, out, request, on_progress)


def _written(
    spark: SparkSession, archive: Archive, out: Path, request: ReportRequest, on_progress: Callable[[str], None]
) -> Path:
    fresh = out.with_name(f".{out.name}.{os.getpid()}")
    shutil.rmtree(fresh, ignore_errors=True)
    try:
        (fresh / TABLES).mkdir(parents=True)
        page = make(spark, archive, request, fresh / TABLES, on_progress)
        (fresh / PAGE).write_text(page, encoding="utf-8")
        if out.exists():
            shutil.rmtree(out)
        fresh.rename(out)
    except OSError as error:
        raise PipelineError(f"{out} cannot be written: {sentence(error)}") from None
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return out / PAGE


def _check(out: Path) -> None:
    if (problem := url_problem(str(out))) is not None:
        raise PipelineError(problem)
    ours = (out / PAGE).is_file() and (out / TABLES).is_dir()
    if out.exists() and not ours and (not out.is_dir() or any(out.iterdir())):
        raise PipelineError(f"{out} exists and is not a report: choose another folder with --out")
    if not out.parent.is_dir():
        raise PipelineError(f"{out} cannot be written: there is no folder {out.parent}")


def make(
    spark: SparkSession,
    archive: Archive,
    request: ReportRequest,
    tables: Path,
    on_progress: Callable[[str], None] = lambda _: None,
) -> str:
    """Write the tables into a folder; returns the page's HTML. Each file of the archive is read once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    history = archive.readable()
    there = {file.address for _, file in history.live_files()}
    own = [each for each in (request.journals or (JOURNAL,)) if each in there]
    times = period(request.selection.since, request.selection.until, datetime.now(UTC))
    events = _events(spark, archive, request.selection, times, sorted(there - set(own)))
    journal = _journal(spark, archive, request, times, own)
    rows = None if journal is None else journal_checks.sound(journal)
    try:
        on_progress("looking through archive and journal" if rows is not None else "looking through the archive")
        ends = report_tables.span(events, rows)
        seconds = report_tables.width(ends[1] - ends[0], min(report_tables.interval(rows), _DAY)) if ends else 1
        frames = {} if events is None else report_tables.archive_tables(events, seconds)
        frames |= {} if rows is None else report_tables.journal_tables(rows, seconds)
        collected = report_tables.collected(frames)
    finally:
        for frame in (events, journal):
            if frame is not None:
                frame.unpersist()
    found = {name: table.to_pylist() for name, (table, _) in collected.items()}
    found["archive_files"] = [asdict(each) for each in archive_health(history.live_commits(), found.get("lag", ()))]
    written = {name: table for name, (table, _) in collected.items()}
    if found["archive_files"]:
        written["archive_files"] = pa.Table.from_pylist(found["archive_files"])
    for name, table in written.items():
        pq.write_table(table, tables / f"{name}.parquet")
    on_progress("drawing")
    terms = ReportTerms(seconds, request.keys, events is not None, rows is not None, times.compared)
    short = [name for name, (_, cut) in collected.items() if cut]
    return render(_page(archive, request, found, terms, ends, times, short))


def _events(
    spark: SparkSession, archive: Archive, selection: ArchiveSelection, times: Period, addresses: Sequence[str]
) -> DataFrame | None:
    """The selected events of both periods, cached for the tables; `None` if the archive has no events."""
    if not addresses:
        return None
    chosen = [each for each in addresses if not selection.addresses or each in selection.addresses]
    unknown = sorted(set(selection.addresses) - set(addresses))
    if unknown:
        raise PipelineError(f"the archive has no address {unknown[0]} (it has: {', '.join(addresses)})")
    both = replace(selection, addresses=chosen, since=times.first)
    return report_tables.events(read_archive(spark, archive, both), times.compared_since).cache()


def _journal(
    spark: SparkSession, archive: Archive, request: ReportRequest, times: Period, own: Sequence[str]
) -> DataFrame | None:
    """Rows of the archive's own journal and of others; `None` if there is none."""
    paths = [str(archive.path / f"address={quote(each, safe='')}") for each in own]
    paths += [each for each in request.journals if each not in own]
    if not paths:
        return None
    since, until = (None if each is None else int(each.timestamp() * 1000) for each in (times.first, times.until))
    found = journal_checks.between(job.journal_rows(spark, paths, times.first), since, until)
    rows = report_tables.current_rows(found, times.compared_since).cache()
    journal_checks.check(rows, skip_bad=request.skip_bad)
    return rows


def _page(
    archive: Archive, request: ReportRequest, tables: Tables, terms: ReportTerms,
    ends: tuple[float, float] | None, times: Period, short: Sequence[str],
) -> Page:  # fmt: skip
    lost = {row["cause"]: row["rows"] for row in tables.get("lost", ())}
    warnings = [f"The table {name} is cut off: it has no more than {report_tables.MOST:,} rows." for name in short]
    if lost:
        causes = ", ".join(f"{words.count(rows)} {cause}" for cause, rows in sorted(lost.items()))
        warnings.append(f"The journal is not whole: rows were lost when it was written ({causes}).")
    made = (
        f"Made by ScopeGate {__version__} at {words.moment(time.time())}. Tables: {TABLES}/*.parquet beside this page."
    )
    tiles = tuple(key_figures(tables, terms))
    about = list(_about(archive, request, ends, times))
    return Page("Traffic report", about, tiles, warnings, tuple(chapters(tables, terms)), made)


def _about(
    archive: Archive, request: ReportRequest, ends: tuple[float, float] | None, times: Period
) -> Iterator[str]:
    span = "nothing was selected" if ends is None else f"{words.moment(ends[0])} to {words.moment(ends[1])}"
    yield f"{archive.path.resolve().name}: {span}."
    if times.before is not None and times.since is not None:
        begin, end = (words.moment(each.timestamp()) for each in (times.before, times.since))
        yield f"Changes are since the period of the same length before: {begin} to {end}."
    if request.selection.filter:
        yield f"Archived events only where {request.selection.filter}"
