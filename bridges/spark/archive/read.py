"""The archive as a DataFrame of selected, committed rows. Filters are Columns; no Python runs in the query."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING

from bridges.spark.archive.contents.dates import DateRange, date_of, dates_of, overlaps
from bridges.spark.archive.contents.decode import DDL
from bridges.spark.archive.contents.file_layout import READ_DDL, restored_frame
from bridges.spark.archive.contents.messages import messages_of
from bridges.spark.archive.manifest.commits import address_of
from bridges.spark.archive.read_objects import object_frame
from bridges.spark.archive.store import Archive, Commit, File, file_url
from bridges.spark.errors import PipelineError
from gateway.errors import AmqpError
from gateway.filters.parse.sql import parse_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class ArchiveSelection:
    """Selects rows of an archive; an omitted field does not restrict the selection."""

    addresses: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    """Times of the events; the end is exclusive."""
    offsets: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    """First offset and end (exclusive) by partition; other partitions are left out."""
    filter: str | None = None
    """An AMQP SQL filter (docs/filters.md)."""
    strict: bool = True
    """Whether a row whose columns lack a value of the filter fails the job; otherwise it does not match."""
    since_date: date | None = field(default=None, repr=False)  # not part of the derived names of replays
    """Events archived under this UTC date or a later one, and those without a date."""

    def __post_init__(self) -> None:
        """Raise `PipelineError` for times that no event can have."""
        if self.since and self.until and self.until.astimezone(UTC) < self.since.astimezone(UTC):
            raise PipelineError(f"the end of the times, {self.until}, is before their beginning, {self.since}")

    def dates(self) -> DateRange:
        """The dates of the archive's folders that may hold selected events."""
        found = dates_of(self.since, self.until)
        first = max((each for each in (found.first, self.since_date) if each is not None), default=None)
        return found._replace(first=first)

    def may_hold(self, file: File) -> bool:
        """Whether a file may have selected events, by the times in the manifest."""
        if date_of(file.path) is None:  # the manifest's times do not cover rows without a timestamp
            return True
        return overlaps(self.since, self.until, file.earliest, file.latest)


def read_archive(
    spark: SparkSession, archive: Archive, selection: ArchiveSelection = ArchiveSelection(), *, messages: bool = False
) -> DataFrame:
    """All committed rows that are selected; raises `PipelineError`.

    `head` and `bare_message` are null in rows with a `record`, unless `messages` is set; then Python encodes them.
    """
    dates = selection.dates()
    live = archive.readable().live_files(lambda folder: _is_selected(folder, selection, dates))
    found = _read_files(spark, archive, [file for _, file in live if selection.may_hold(file)], selection)
    return messages_of(found) if messages else found


def read_commits(
    spark: SparkSession, archive: Archive, commits: Sequence[Commit], selection: ArchiveSelection
) -> DataFrame:
    """The rows of these commits."""
    dates = selection.dates()
    found = (file for commit in commits for file in commit.files if _is_selected(file.folder, selection, dates))
    files = [file for file in found if selection.may_hold(file)]
    return _read_files(spark, archive, files, selection)


def _read_files(spark: SparkSession, archive: Archive, files: Sequence[File], selection: ArchiveSelection) -> DataFrame:
    if not files:
        return spark.createDataFrame([], DDL)
    if isinstance(archive.path, Path):
        frame = _file_frame(spark, archive.path, files)
    else:
        frame = object_frame(spark, archive.path, files)
    folders = selection.dates().column()
    return selected(frame if folders is None else frame.where(folders), selection)


def _file_frame(spark: SparkSession, archive: Path, files: Sequence[File]) -> DataFrame:
    of_base: dict[Path, list[Path]] = {}  # Spark takes address and date from the path below one base
    for file in files:
        path = archive / file.path
        if not path.exists():
            raise PipelineError(f"{path} is missing, the manifest has it: scopegate pipeline verify")
        of_base.setdefault(path.parents[2], []).append(path)
    return reduce(lambda one, other: one.union(other), (_parquet(spark, *each) for each in of_base.items()))


def _parquet(spark: SparkSession, base: Path, paths: Sequence[Path]) -> DataFrame:
    reader = spark.read.schema(READ_DDL).option("basePath", file_url(base)).option("mergeSchema", "false")
    for setting in ("ignoreMissingFiles", "ignoreCorruptFiles"):  # if a session enables them, events go missing
        reader = reader.option(setting, "false")
    # without checksums, damaged files may yield wrong events
    reader = reader.option("parquet.page.verify-checksum.enabled", "true")
    return restored_frame(reader.parquet(*map(file_url, paths)))


def check_offsets(commits: Sequence[Commit], address: str, offsets: Mapping[int, tuple[int, int]]) -> None:
    """Raise `PipelineError` for selected offsets that the archive does not have."""
    for partition, (start, end) in offsets.items():
        name = f"{address}, partition {partition}"
        ranges = [each for commit in commits for each in commit.ranges if each.address == address]
        of_partition = [each for each in ranges if each.partition == partition]
        if not of_partition:
            known = ", ".join(map(str, sorted({each.partition for each in ranges})))
            raise PipelineError(f"{name}: it is not in the archive (there is: {known})")
        if not of_partition[0].start <= start < end <= of_partition[-1].end:
            asked = f"{start} to {end} (exclusive) are asked for"
            archived = f"the archive has {of_partition[0].start} to {of_partition[-1].end}"
            raise PipelineError(f"{name}: offsets {asked}, {archived}")


def _is_selected(folder: str, selection: ArchiveSelection, dates: DateRange) -> bool:
    is_address = not selection.addresses or address_of(folder) in selection.addresses
    return is_address and dates.may_hold(f"{folder}/")


def selected(frame: DataFrame, selection: ArchiveSelection) -> DataFrame:
    """The selected rows of any frame in the archive's layout."""
    from pyspark.sql import functions as F

    from bridges.spark.column import column

    if selection.since is not None:
        frame = frame.where(F.col("timestamp") >= F.lit(selection.since))
    if selection.until is not None:
        frame = frame.where(F.col("timestamp") < F.lit(selection.until))
    if selection.offsets:
        inside = F.lit(False)
        for partition, (start, end) in selection.offsets.items():
            same_partition = F.col("partition") == partition
            inside = inside | (same_partition & (F.col("offset") >= start) & (F.col("offset") < end))
        frame = frame.where(inside)
    if selection.filter is not None:
        try:
            frame = frame.where(column(parse_sql(selection.filter), strict=selection.strict))
        except AmqpError as error:
            raise PipelineError(f"the filter: {error.description}") from None
    return frame
