"""Maintains a Delta table of the archive: the files of each commit are added in one Delta transaction.

The manifest stays authoritative. A transaction has the number of its commit (`txn` of Delta's protocol), so the next
job adds the commits that a killed job left out, each once (docs/decisions/0013). Uses Delta's jars through py4j.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote, unquote

import pyarrow.parquet as pq

from bridges.spark.archive.contents.file_layout import ENTRIES, READ_DDL
from bridges.spark.archive.manifest.commits import Commit, File, folder_of
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.storage.paths import unreadable
from bridges.spark.archive.store import Archive, file_url
from bridges.spark.errors import Damaged, PipelineError, sentence

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JavaObject: TypeAlias = Any
"""A class or object in Spark's Java, reached through py4j, which has no types."""
LOG: Final = "_delta_log"
APPLICATION: Final = "scopegate-archive"
CONF: Final = {
    "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "spark.databricks.delta.snapshotPartitions": "2",
}
"""Settings of a Spark session that writes Delta tables."""
_STATISTICS: Final = ("partition", "offset")
_SAFE: Final = "/=-_.~"


class DeltaLog:
    """Delta's log of an archive's folder."""

    def __init__(self, spark: SparkSession, archive: Archive) -> None:
        self._archive: Final = archive
        self._spark: Final = spark
        jvm: JavaObject = spark.sparkContext._jvm
        self._jvm: Final = jvm

    @cached_property
    def _log(self) -> JavaObject:
        where = file_url(self._archive.path)
        return self._jvm.org.apache.spark.sql.delta.DeltaLog.forTable(self._spark._jsparkSession, where)

    def follow(self) -> None:
        """Add the commits that the table lacks, in their order. Raises `PipelineError`."""
        try:
            history = self._archive.readable()
            if history.number:  # Delta's classes are slow to load: only when needed
                for commit in history.commits(self._latest()):
                    self._add(commit, history)
        except PipelineError:
            raise
        except Exception as error:  # from Java
            raise PipelineError(f"{self._archive.path} as a Delta table: {sentence(error)}") from error

    def _latest(self) -> int:
        return max(int(self._log.startTransaction().txnVersion(APPLICATION)), 0)

    def _add(self, commit: Commit, history: History) -> None:
        transaction = self._log.startTransaction()
        if transaction.readVersion() < 0:
            transaction.updateMetadataForNewTable(self._action({"metaData": self._metadata(str(uuid.uuid4()))}))
        elif ENTRIES not in list(transaction.metadata().schema().fieldNames()):  # the table of an older version
            transaction.updateMetadata(self._action({"metaData": self._metadata(transaction.metadata().id())}), False)
        now = int(time.time() * 1000)
        actions = [{"txn": {"appId": APPLICATION, "version": commit.number, "lastUpdated": now}}]
        before, after = history.files_before(commit), set(commit.files)
        gone = [file for file in before if file not in after]
        fresh = [file for file in commit.files if file not in set(before) and self._is_needed(commit, file, history)]
        actions += [{"remove": removed(file, now, changes=commit.changes_rows)} for file in gone]
        actions += [{"add": added(_folder(self._archive), file, now, changes=commit.changes_rows)} for file in fresh]
        found = self._jvm.java.util.ArrayList()
        for action in actions:
            found.add(self._action(action))
        by_hand = getattr(self._jvm.org.apache.spark.sql.delta, "DeltaOperations$ManualUpdate$")
        operation = getattr(by_hand, "MODULE$")
        transaction.commit(self._jvm.PythonUtils.toSeq(found), operation)

    def _is_needed(self, commit: Commit, file: File, history: History) -> bool:
        """False for a file that a later commit has replaced and deleted before the table followed."""
        return history.is_live(commit.number, file) or (self._archive.path / file.path).exists()

    def _action(self, action: Mapping[str, object]) -> JavaObject:
        return self._jvm.org.apache.spark.sql.delta.actions.Action.fromJson(json.dumps(action))

    def _metadata(self, table: str) -> dict[str, object]:
        from pyspark.sql.types import StructType

        return {
            "id": table,
            "description": "written by scopegate pipeline archive; its manifest is authoritative",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": StructType.fromDDL(READ_DDL).json(),
            "partitionColumns": ["address", "date"],
            "configuration": {},
            "createdTime": int(time.time() * 1000),
        }


def removed(file: File, now: int, *, changes: bool) -> dict[str, object]:
    """The entry of a file that a commit replaces; `changes`: no other file has its rows."""
    return {
        "path": quote(file.path, safe=_SAFE),
        "partitionValues": {"address": file.address, "date": file.date},
        "size": file.bytes,
        "deletionTimestamp": now,
        "dataChange": changes,
        "extendedFileMetadata": True,
    }


def added(archive: Path, file: File, now: int, *, changes: bool = True) -> dict[str, object]:
    """The entry of a file in Delta's log, with its number of rows and the span of its offsets."""
    return {
        "path": quote(file.path, safe=_SAFE),
        "partitionValues": {"address": file.address, "date": file.date},
        "size": file.bytes,
        "modificationTime": now,
        "dataChange": changes,
        "stats": json.dumps(_statistics(archive / file.path)),
    }


def _statistics(path: Path) -> dict[str, object]:
    try:
        with pq.ParquetFile(path) as file:
            footer = file.metadata
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from None
    least: dict[str, int] = {}
    most: dict[str, int] = {}
    for name in _STATISTICS:
        place = footer.schema.names.index(name)
        groups = [footer.row_group(number).column(place).statistics for number in range(footer.num_row_groups)]
        if groups and all(group is not None and group.has_min_max for group in groups):
            least[name] = min(group.min for group in groups)
            most[name] = max(group.max for group in groups)
    return {"numRecords": footer.num_rows, "minValues": least, "maxValues": most}


# -- checked without Spark


def is_table(archive: Archive) -> bool:
    """Whether the archive is a Delta table as well."""
    return isinstance(archive.path, Path) and (archive.path / LOG).is_dir()


def _folder(archive: Archive) -> Path:
    """The folder of the archive; only archives in folders have Delta tables."""
    assert isinstance(archive.path, Path)
    return archive.path


def followed(archive: Archive, number: int) -> bool:
    """Whether the archive has no Delta table, or one with all commits up to this number."""
    return not is_table(archive) or _read_log(_folder(archive) / LOG)[1] >= number


def table_problems(archive: Archive, history: History) -> list[str]:
    """Differences between the Delta table and the manifest; the table may lack the last commit."""
    if not is_table(archive):
        return []
    files, latest = _read_log(_folder(archive) / LOG)
    if latest < history.number - 1:
        return [f"the Delta table has commits up to {latest} only: the next job of the archive adds the others"]
    later = list(archive.history().commits(min(latest, history.number)))  # commits that the table may have or lack
    before = {file.path for commit in later[:1] for file in history.files_before(commit)}
    skipped = {file.path for commit in later for file in commit.files} - before
    changed = {folder for commit in later for folder in commit.replaced}
    unclear = {folder for commit in later[1:] for folder in commit.replaced}
    expected = {file.path for _, file in history.live_files() if file.folder not in changed} | before
    expected = {path for path in expected - skipped if folder_of(path) not in unclear}
    files = {path for path in files - skipped if folder_of(path) not in unclear}
    found = [f"the Delta table lacks {path}" for path in sorted(expected - files)]
    return found + [f"the Delta table has {path}, which is in no commit" for path in sorted(files - expected)]


def _read_log(log: Path) -> tuple[set[str], int]:
    """The files of the table, and the last commit of the archive that it includes."""
    start, files, latest = _checkpoint(log)
    versions = sorted(path for path in log.glob("*.json") if path.stem.isdigit() and int(path.stem) > start)
    for path in versions:
        try:
            actions = [json.loads(line) for line in path.read_text().splitlines() if line]
        except OSError as error:
            raise PipelineError(sentence(error)) from None
        except ValueError:
            raise Damaged(f"{path} is not a version of a Delta table") from None
        for action in actions:
            if "add" in action:
                files.add(unquote(action["add"]["path"]))
            elif "remove" in action:
                files.discard(unquote(action["remove"]["path"]))
            elif (txn := action.get("txn")) is not None and txn["appId"] == APPLICATION:
                latest = max(latest, txn["version"])
    return files, latest


def _checkpoint(log: Path) -> tuple[int, set[str], int]:
    """The version, files and commit of Delta's last checkpoint, which replaces all older versions."""
    paths = sorted(path for path in log.glob("*.checkpoint.parquet") if path.name.split(".")[0].isdigit())
    if not paths:
        return -1, set(), 0
    try:
        with pq.ParquetFile(paths[-1]) as file:  # as structs, which `read_table` would flatten
            rows = file.read(columns=["add.path", "txn.appId", "txn.version"]).to_pylist()
    except (OSError, ValueError) as error:
        raise unreadable(paths[-1], error) from None
    files = {unquote(row["add"]["path"]) for row in rows if row["add"]}
    latest = [row["txn"]["version"] for row in rows if row["txn"] and row["txn"]["appId"] == APPLICATION]
    return int(paths[-1].name.split(".")[0]), files, max(latest, default=0)
