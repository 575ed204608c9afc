"""Maintains an Iceberg table of the archive: metadata beside the archive's files (docs/decisions/0068).

    _iceberg/metadata/v17.metadata.json    the table as of commit 17 of the archive
    _iceberg/metadata/version-hint.text    17, where readers of tables without a catalog begin

The manifest stays authoritative. A snapshot has the number of the commit that it includes, and the next one continues
from there: it adds what a killed job left out, and nothing twice. Uses pyiceberg, and no Spark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.parquet as pq

from bridges.spark.archive.contents.file_layout import STORED
from bridges.spark.archive.manifest.commits import File
from bridges.spark.archive.manifest.history import History
from bridges.spark.archive.storage.paths import StoragePath, readable, unreadable, write_whole
from bridges.spark.archive.storage.s3 import ObjectPath
from bridges.spark.archive.store import Archive, file_url
from bridges.spark.archive.writers.objects import FORGOTTEN
from bridges.spark.errors import PipelineError, sentence

if TYPE_CHECKING:
    from pyiceberg.catalog.memory import InMemoryCatalog
    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

FOLDER: Final = "_iceberg"
HINT: Final = "version-hint.text"
COMMIT: Final = "scopegate.commit"
"""The property of a snapshot with the number of the last commit that it includes."""
_NAME: Final = ("archive", "events")
_KEPT: Final = 20
"""The number of earlier states of the table that stay readable."""
_METRICS: Final = {
    "write.metadata.metrics.default": "counts",
    **dict.fromkeys((f"write.metadata.metrics.column.{name}" for name in ("partition", "offset", "timestamp")), "full"),
}
"""Bounds of these columns only: those of keys and properties would outlive events that `erase` deletes."""
_EPOCH: Final = date(1970, 1, 1)
_COLUMNS: Final = pa.schema([pa.field("address", pa.string()), pa.field("date", pa.date32()), *STORED])


def is_iceberg(archive: Archive) -> bool:
    """Whether the archive is an Iceberg table as well."""
    return (_metadata(archive) / HINT).exists()


def iceberg_commit(archive: Archive) -> int:
    """The last commit that the table includes; 0 if there is no table. Raises `PipelineError`."""
    path = _metadata(archive) / HINT
    try:
        return int(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return 0
    except OSError as error:
        raise PipelineError(f"{path} cannot be read: {sentence(error)}") from None


def _metadata(archive: Archive) -> StoragePath:
    return archive.path / FOLDER / "metadata"


def _version(archive: Archive, number: int) -> StoragePath:
    return _metadata(archive) / f"v{number}.metadata.json"


class IcebergTable:
    """The table of an archive."""

    def __init__(self, archive: Archive) -> None:
        """Raises `PipelineError` if pyiceberg is missing."""
        try:
            import pyiceberg.catalog.memory  # noqa: F401
        except ImportError as error:
            raise PipelineError(f"{error.name} is not installed: pip install 'scopegate[iceberg]'") from None
        self._archive: Final = archive
        self._seen = False

    def follow(self) -> None:
        """Add what the table lacks, as one snapshot. Raises `PipelineError`.

        The first call also makes a table anew that cannot be continued, and removes files that killed jobs have left.
        """
        try:
            history, latest = self._archive.readable(), iceberg_commit(self._archive)
            if history.number > latest or (latest and not self._seen):
                self._add(history, latest)
            self._seen = True
        except PipelineError:
            raise
        except Exception as error:  # from pyiceberg or the storage
            raise PipelineError(f"{self._archive.path} as an Iceberg table: {sentence(error)}") from error

    def _add(self, history: History, latest: int) -> None:
        if _misfit(self._archive, latest) is not None:
            latest = 0
        table = _opened(self._archive, latest)
        expired = False
        if history.number > latest:
            self._commit(table, history, latest)
            expired = _expire(table)
            self._keep(table.metadata.model_dump_json(), history.number)
        if expired or not latest or not self._seen:
            _remove_unused(self._archive, table, anew=not latest)

    def _commit(self, table: Table, history: History, latest: int) -> None:
        from pyiceberg.expressions import AlwaysFalse, AlwaysTrue

        gone, fresh = _changes(history, latest)
        if gone or fresh:
            with table.transaction() as transaction:
                update = transaction.update_snapshot(snapshot_properties={COMMIT: str(history.number)})
                with update.overwrite() if gone else update.merge_append() as snapshot:
                    snapshot.delete_by_predicate(AlwaysTrue() if gone else AlwaysFalse())
                    for file in gone:
                        snapshot.delete_data_file(_data_file(self._archive, table, file, written=False))
                    for file in fresh:
                        snapshot.append_data_file(_data_file(self._archive, table, file))

    def _keep(self, text: str, number: int) -> None:
        """Publish this state of the table, and remove old and unfinished ones."""
        place = _version(self._archive, number)
        if isinstance(place, Path):
            place.parent.mkdir(parents=True, exist_ok=True)
        write_whole(place, text)
        write_whole(_metadata(self._archive) / HINT, str(number))
        versions = []
        for path in _metadata(self._archive).glob("*.metadata.json"):
            found = path.name.removeprefix("v").removesuffix(".metadata.json")
            if path.name.startswith("v") and found.isdigit():
                versions.append(int(found))
            else:
                path.unlink(missing_ok=True)  # intermediate files of pyiceberg
        for old in sorted(versions)[:-_KEPT]:
            _version(self._archive, old).unlink(missing_ok=True)


def _remove_unused(archive: Archive, table: Table, *, anew: bool) -> None:
    """Remove expired files, those that killed jobs have left, and those of a former table if this one was made `anew`.

    In an object store, a job that hangs may still publish its files: other than a former table's, they stay for a day.
    """
    there: list[StoragePath] = list(_metadata(archive).glob("*"))
    used = {path for snapshot in table.metadata.snapshots for path in _lists(snapshot, table)}
    for path in there:
        if path.name.endswith(".avro"):
            unused = file_url(path) not in used
        elif path.name.endswith(".metadata.json"):
            unused = str(table.metadata.table_uuid).encode() not in path.read_bytes()
        else:
            unused = path.name != HINT
        if unused and (anew or isinstance(path, Path) or path.stat().st_ctime + FORGOTTEN <= time.time()):
            path.unlink(missing_ok=True)


def _lists(snapshot: Snapshot, table: Table) -> set[str]:
    """The manifest list of a snapshot, and its manifests."""
    return {snapshot.manifest_list, *(each.manifest_path for each in snapshot.manifests(table.io))}


def _misfit(archive: Archive, latest: int) -> str | None:
    """Why the table as of a commit cannot be continued, if so. Raises `OSError`."""
    if not latest:
        return "is missing"
    try:
        found = json.loads(_version(archive, latest).read_bytes())
        location, properties = found["location"], found["properties"]
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return f"lacks its metadata, or they are broken ({_version(archive, latest).name})"
    if location != _location(archive):
        return f"is that of {location}, whose files it has"
    if not _METRICS.items() <= properties.items():
        return "is of an older version, and may have keys and properties in its metadata"
    return None


def _location(archive: Archive) -> str:
    return f"{file_url(archive.path)}/{FOLDER}"


def _changes(history: History, latest: int) -> tuple[list[File], list[File]]:
    """The files that were live as of a commit and are no longer, and those added since."""
    replaced, new = set[str](), dict[str, File]()
    for commit in history.commits(latest):
        replaced.update(commit.replaced)
        new.update((file.path, file) for file in commit.files if history.is_live(commit.number, file))
    before = {file.path: file for file in history.files_as_of(latest, replaced)} if replaced and latest else {}
    now = {file.path for _, file in history.live_files(lambda folder: folder in replaced)} if before else set()
    gone = [file for path, file in before.items() if path not in now]
    return gone, [file for path, file in new.items() if path not in before]


def _catalog(archive: Archive) -> InMemoryCatalog:
    """A temporary catalog for one change of the table; everything that lasts is in the archive."""
    from pyiceberg.catalog.memory import InMemoryCatalog

    return InMemoryCatalog("scopegate", warehouse=file_url(archive.path), **_properties(archive))


def _properties(archive: Archive) -> Mapping[str, str]:
    if not isinstance(archive.path, ObjectPath):
        return {}
    from bridges.spark.archive.storage.iceberg_io import catalog_properties

    return catalog_properties(archive.path)


def _opened(archive: Archive, latest: int) -> Table:
    """The table as of a commit, or a new one."""
    catalog = _catalog(archive)
    catalog.create_namespace(_NAME[:1])
    if latest:
        return catalog.register_table(_NAME, file_url(_version(archive, latest)))
    from pyiceberg.io.pyarrow import _pyarrow_to_schema_without_ids
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import assign_fresh_schema_ids
    from pyiceberg.table.name_mapping import create_mapping_from_schema
    from pyiceberg.transforms import IdentityTransform

    schema = assign_fresh_schema_ids(_pyarrow_to_schema_without_ids(_COLUMNS))
    parts = [
        PartitionField(schema.find_field(name).field_id, 1000 + place, IdentityTransform(), name)
        for place, name in enumerate(("address", "date"))
    ]
    names = create_mapping_from_schema(schema).model_dump_json()  # files have no column ids
    settings = {"schema.name-mapping.default": names, "commit.manifest-merge.enabled": "true", **_METRICS}
    return catalog.create_table(_NAME, schema, _location(archive), PartitionSpec(*parts), properties=settings)


def _data_file(archive: Archive, table: Table, file: File, *, written: bool = True) -> DataFile:
    """The entry of a file; one that is removed is found by its path and partition."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    day = None if file.date.startswith("__") else (date.fromisoformat(file.date) - _EPOCH).days
    statistics = _statistics(archive, table, file) if written else {"record_count": 0}
    made = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=file_url(archive.path / file.path),
        file_format=FileFormat.PARQUET,
        partition=Record(file.address, day),
        file_size_in_bytes=file.bytes,
        **statistics,
    )
    made.spec_id = table.metadata.default_spec_id
    return made


def _statistics(archive: Archive, table: Table, file: File) -> dict[str, object]:
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
        data_file_statistics_from_parquet_metadata,
        parquet_path_to_id_mapping,
    )

    path = archive.path / file.path
    with _parquet(path) as found:
        if "entries" not in found.schema_arrow.names:
            raise PipelineError(f"{path} is of an older version: scopegate pipeline compact rewrites such files")
        plan = compute_statistics_plan(table.schema(), {**table.properties, **_METRICS})
        names = parquet_path_to_id_mapping(table.schema())
        made: dict[str, object] = data_file_statistics_from_parquet_metadata(
            found.metadata, plan, names
        ).to_serialized_dict()
    return made


def _parquet(path: StoragePath) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(readable(path))
    except (pa.ArrowException, OSError, ValueError) as error:
        raise unreadable(path, error) from error


def _expire(table: Table) -> bool:
    """Expire old snapshots, if there are many. Returns whether there were."""
    snapshots = sorted(table.metadata.snapshots, key=lambda each: each.sequence_number or 0)
    if len(snapshots) <= 2 * _KEPT:
        return False
    table.maintenance.expire_snapshots().by_ids([each.snapshot_id for each in snapshots[:-_KEPT]]).commit()
    return True


# -- checking


def iceberg_problems(archive: Archive, history: History) -> list[str]:
    """Differences between the table and the manifest; the table may lack the last commit."""
    if not is_iceberg(archive):
        return []
    latest = iceberg_commit(archive)
    if (why := _misfit(archive, latest)) is not None:
        return [f"the Iceberg table {why}: the next job of the archive makes it again"]
    if latest < history.number - 1:
        return [f"the Iceberg table has commits up to {latest} only: the next job of the archive adds the others"]
    if latest != history.number:
        return []
    try:
        files = set(_table_files(archive, latest))
    except ImportError:
        return ["the Iceberg table cannot be checked without pyiceberg: pip install 'scopegate[iceberg]'"]
    except Exception as error:  # from pyiceberg or the storage
        return [f"the Iceberg table cannot be read: {sentence(error)}"]
    expected = {file_url(archive.path / file.path) for _, file in history.live_files()}
    found = [f"the Iceberg table lacks {path}" for path in sorted(expected - files)]
    return found + [f"the Iceberg table has {path}, which is in no commit" for path in sorted(files - expected)]


def _table_files(archive: Archive, latest: int) -> Iterator[str]:
    from pyiceberg.table import StaticTable

    table = StaticTable.from_metadata(file_url(_version(archive, latest)), dict(_properties(archive)))
    snapshot = table.current_snapshot()
    for manifest in snapshot.manifests(table.io) if snapshot else ():
        for entry in manifest.fetch_manifest_entry(table.io):
            yield entry.data_file.file_path
