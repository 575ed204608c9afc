"""An archive as an Iceberg table, read by duckdb's own implementation, in a folder and in an object store."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from datetime import UTC, date, datetime
from pathlib import Path

import pytest
from pyiceberg.table import StaticTable

from bridges.spark.archive.iceberg import FOLDER, IcebergTable, iceberg_commit
from bridges.spark.archive.maintenance.compaction import compact, place_due, plan
from bridges.spark.archive.maintenance.removal import erase, expire, plan_erasure, plan_expiry
from bridges.spark.archive.manifest.commits import Commit
from bridges.spark.archive.storage.s3 import ObjectPath
from bridges.spark.archive.store import Archive
from bridges.spark.archive.verification import verify
from bridges.spark.columns.rows import EventRow
from bridges.spark.errors import PipelineError
from bridges.spark.views.views import views_sql
from tests.support.amqp.messages import message
from tests.support.servers.object_store import ObjectStore
from tests.support.spark import archives
from tests.support.spark.duckdb_iceberg import answered, queried

DAY = 86_400_000
SIZE = 1 << 20


def events(first: int, last: int, step: int = DAY // 2) -> list[EventRow]:
    """Two events a day, with one of three keys each."""
    return [
        EventRow(0, number, number * step, b"k%d" % (number % 3), message(b"v%d" % number, app={"n": number}))
        for number in range(first, last)
    ]


def rows(archive: Archive) -> list[list[object]]:
    columns = "address, date, \"offset\", key, body, application_properties['n'].long"
    return queried(archive, f'SELECT {columns} FROM events ORDER BY "offset"')


def expected(found: Sequence[EventRow]) -> list[list[object]]:
    return [["orders/eu", day(each), each.offset, *texts(each), each.offset] for each in found]


def day(event: EventRow) -> str:
    return str(datetime.fromtimestamp(event.timestamp_ms / 1000, UTC).date())


def texts(event: EventRow) -> tuple[str, str]:
    return (event.key or b"").hex(), (b"v%d" % event.offset).hex()


def test_the_table_has_what_is_committed_once(tmp_path: Path) -> None:
    archive = archives.written(tmp_path / "archive", {"orders/eu": events(0, 6)})
    IcebergTable(archive).follow()
    assert rows(archive) == expected(events(0, 6))
    with archive.writing():
        archives.append(archive, {"orders/eu": events(6, 8)})
        archives.append(archive, {"orders/eu": events(8, 10)})
    assert verify(archive).problems == ("the Iceberg table has commits up to 1 only: the next job of the archive adds "
                                        "the others",)  # fmt: skip
    for _ in range(2):  # a job that was killed before it, and one that has nothing to do
        IcebergTable(archive).follow()
        assert rows(archive) == expected(events(0, 10))
        assert (iceberg_commit(archive), verify(archive).problems) == (3, ())
    assert queried(archive, "SELECT count(*) FROM events WHERE date >= DATE '1970-01-03'") == [[6]]
    assert queried(archive, "SELECT count(*) FROM events WHERE address = 'other'") == [[0]]


def test_a_key_of_compacted_dates_is_erased_in_one_run(tmp_path: Path) -> None:
    """Each date that was put in place left the table one commit behind, so one run got no further than one date."""
    archive = archives.written(tmp_path / "archive", {"orders/eu": events(0, 6)})
    with archive.writing():
        archives.append(archive, {"orders/eu": [each._replace(offset=each.offset + 6) for each in events(0, 6)]})
    table = IcebergTable(archive)
    table.follow()
    for task in plan(archive.readable(), date(2000, 1, 1), SIZE):
        compact(archive, task, SIZE, 3600)
    with pytest.raises(PipelineError, match="a table lacks the last commits: run scopegate pipeline archive first"):
        list(erase(archive, b"k1", list(plan_erasure(archive, b"k1"))))
    table.follow()
    assert len(list(erase(archive, b"k1", list(plan_erasure(archive, b"k1"))))) == 2
    table.follow()
    assert (verify(archive).rows, verify(archive).problems) == (8, ())
    assert queried(archive, "SELECT count(*), count(*) FILTER (key = 'k1') FROM events") == [[8, 0]]


def test_rewritten_files_replace_the_old_ones(tmp_path: Path) -> None:
    archive = archives.written(tmp_path / "archive", {"orders/eu": events(0, 6)})
    with archive.writing():
        archives.append(archive, {"orders/eu": events(6, 12, step=1)})
    table, all_rows = IcebergTable(archive), [*events(0, 6), *events(6, 12, step=1)]
    table.follow()
    (task,) = plan(archive.readable(), date(2000, 1, 1), SIZE)
    compact(archive, task, SIZE, 3600)
    assert not list(place_due(archive, at_once=True)), "the table may still name the old files"
    table.follow()
    assert (rows(archive), verify(archive).problems) == (expected(all_rows), ())
    assert len(list(place_due(archive, at_once=True))) == 1
    table.follow()
    assert (rows(archive), verify(archive).problems) == (expected(all_rows), ())
    list(erase(archive, b"k1", list(plan_erasure(archive, b"k1"))))
    table.follow()
    kept = [each for each in all_rows if each.key != b"k1"]
    assert (rows(archive), verify(archive).problems) == (expected(kept), ())
    list(expire(archive, plan_expiry(archive, date(1970, 1, 2))))
    table.follow()
    kept = [each for each in kept if each.timestamp_ms >= DAY]
    assert (rows(archive), verify(archive).problems) == (expected(kept), ())


def test_its_metadata_have_no_contents_of_events(tmp_path: Path) -> None:
    """The smallest and the largest key of each file stayed in older manifests when `erase` had deleted the events."""
    archive = archives.written(tmp_path / "archive", {"orders/eu": events(0, 6)})
    IcebergTable(archive).follow()
    table = StaticTable.from_metadata(str(archive.path / FOLDER / "metadata/v1.metadata.json"))
    for file in table.inspect.files().to_pylist():
        for bounds in (file["lower_bounds"], file["upper_bounds"]):
            names = {table.schema().find_column_name(number) for number in dict(bounds)}
            assert names == {"partition", "offset", "timestamp"}


def test_old_states_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridges.spark.archive.iceberg._KEPT", 2)
    archive = archives.written(tmp_path / "archive", {"orders/eu": events(0, 2)})
    table = IcebergTable(archive)
    table.follow()
    with archive.writing():
        for first in range(2, 16, 2):
            archives.append(archive, {"orders/eu": events(first, first + 2)})
            table.follow()
    assert rows(archive) == expected(events(0, 16))
    names = [path.name for path in (tmp_path / "archive" / "_iceberg" / "metadata").iterdir()]
    assert sorted(name for name in names if name.endswith(".json")) == ["v7.metadata.json", "v8.metadata.json"]
    assert len([name for name in names if name.startswith("snap-")]) <= 4


def test_a_table_that_others_changed_is_reported(tmp_path: Path) -> None:
    archive = archives.written(tmp_path / "archive", {"orders/eu": events(0, 2)})
    IcebergTable(archive).follow()
    metadata = tmp_path / "archive" / "_iceberg" / "metadata"
    first = (metadata / "v1.metadata.json").read_bytes()
    with archive.writing():
        archives.append(archive, {"orders/eu": events(2, 4)})
    IcebergTable(archive).follow()
    (metadata / "v2.metadata.json").write_bytes(first)
    (problem,) = verify(archive).problems
    assert problem.startswith("the Iceberg table lacks file://")


def contents(archive: Archive) -> set[str]:
    """The columns of whose contents the files of the metadata tell something, in all states of the table."""
    found: set[str] = set()
    for path in sorted((archive.path / FOLDER / "metadata").glob("v*.metadata.json")):
        table = StaticTable.from_metadata(str(path))
        for file in table.inspect.all_files().to_pylist():
            numbers = dict(file["lower_bounds"]) | dict(file["upper_bounds"])
            found |= {table.schema().find_column_name(number) for number in numbers}
    return found


def avro_files(archive: Archive) -> set[Path]:
    assert isinstance(archive.path, Path)
    return set((archive.path / FOLDER / "metadata").glob("*.avro"))


def of_an_older_version(path: Path, monkeypatch: pytest.MonkeyPatch) -> Archive:
    """An archive whose table has bounds of all columns, as older versions wrote them."""
    archive = archives.written(path, {"orders/eu": events(0, 6)})
    with monkeypatch.context() as older:
        older.setattr("bridges.spark.archive.iceberg._METRICS", {})
        IcebergTable(archive).follow()
    assert "key" in contents(archive)
    return archive


def test_a_table_of_an_older_version_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if the archive has no new commit; keys that were erased would stay in the metadata otherwise."""
    archive = of_an_older_version(tmp_path / "archive", monkeypatch)
    before = avro_files(archive)
    (problem,) = verify(archive).problems
    assert problem.startswith("the Iceberg table is of an older version, and may have keys and properties in its metad")
    IcebergTable(archive).follow()
    assert contents(archive) == {"partition", "offset", "timestamp"}
    assert not before & avro_files(archive)
    assert (rows(archive), verify(archive).problems) == (expected(events(0, 6)), ())


def test_a_table_that_was_deleted_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = of_an_older_version(tmp_path / "archive", monkeypatch)
    shutil.rmtree(tmp_path / "archive" / FOLDER)
    IcebergTable(archive).follow()
    assert contents(archive) == {"partition", "offset", "timestamp"}
    assert (rows(archive), verify(archive).problems) == (expected(events(0, 6)), ())


def test_the_table_of_a_moved_archive_is_made_again(tmp_path: Path) -> None:
    """Its entries are absolute: it had the files of the former place, and the first rewritten one ended the job."""
    archives.written(tmp_path / "before", {"orders/eu": events(0, 6)})
    IcebergTable(Archive(tmp_path / "before")).follow()
    shutil.copytree(tmp_path / "before", tmp_path / "after")
    archive = Archive(tmp_path / "after")
    (problem,) = verify(archive).problems
    assert problem.startswith(f"the Iceberg table is that of file://{tmp_path}/before/_iceberg, whose files it has")
    list(erase(archive, b"k1", list(plan_erasure(archive, b"k1"))))
    IcebergTable(archive).follow()
    shutil.rmtree(tmp_path / "before")
    kept = [each for each in expected(events(0, 6)) if each[3] != b"k1".hex()]
    assert (rows(archive), verify(archive).problems) == (kept, ())


@pytest.mark.parametrize("broken", ["version-hint.text", "v1.metadata.json"])
@pytest.mark.parametrize("content", [b"", b"{}", None])
def test_a_table_with_broken_metadata_is_made_again(tmp_path: Path, broken: str, content: bytes | None) -> None:
    archive = archives.written(tmp_path / "archive", {"orders/eu": events(0, 6)})
    IcebergTable(archive).follow()
    place = tmp_path / "archive" / FOLDER / "metadata" / broken
    place.unlink() if content is None else place.write_bytes(content)
    IcebergTable(archive).follow()
    assert (rows(archive), verify(archive).problems) == (expected(events(0, 6)), ())


def test_queries_fail_at_erased_files_until_the_next_run(tmp_path: Path) -> None:
    archive = archives.written(tmp_path / "archive", {"orders/eu": events(0, 6)})
    IcebergTable(archive).follow()
    list(erase(archive, b"k1", list(plan_erasure(archive, b"k1"))))
    with pytest.raises(AssertionError, match=r"IO Error.*No such file"):
        rows(archive)
    IcebergTable(archive).follow()
    assert rows(archive) == [each for each in expected(events(0, 6)) if each[3] != b"k1".hex()]


def test_files_that_a_killed_job_has_left_are_removed(tmp_path: Path) -> None:
    archive = archives.written(tmp_path / "archive", {"orders/eu": events(0, 6)})
    IcebergTable(archive).follow()
    metadata = tmp_path / "archive" / FOLDER / "metadata"
    left = ["snap-1-0-x.avro", "x-m0.avro", ".v2.metadata.json.4711", ".version-hint.text.47", "00001-x.metadata.json"]
    before = sorted(path.name for path in metadata.iterdir())
    for name in left:
        (metadata / name).write_bytes(b"x")
    IcebergTable(archive).follow()
    assert sorted(path.name for path in metadata.iterdir()) == before
    assert rows(archive) == expected(events(0, 6))


def test_in_an_object_store(object_store: ObjectStore, tmp_path: Path) -> None:
    """duckdb reads the objects with its own client, and everything else is in the bucket as well."""
    local = archives.written(tmp_path / "archive", {"orders/eu": events(0, 6)})
    archive = Archive(object_store.path("iceberg"))
    commit = uploaded(local, archive)
    with archive.writing():
        archive.add(commit, [None] * len(commit.files))
        IcebergTable(archive).follow()
    assert (rows(archive), verify(archive).problems) == (expected(events(0, 6)), ())


def uploaded(local: Archive, archive: Archive) -> Commit:
    """Put the files of a folder's only commit into an object store; the commit, which is not there yet."""
    for path in local.path.glob("address=*/date=*/*.parquet"):
        place = archive.path / str(path).removeprefix(f"{local.path}/")
        assert isinstance(place, ObjectPath)
        place.write_bytes(path.read_bytes())
    (commit,) = local.commits()
    return commit


def test_views_of_an_archive_in_an_object_store_are_read_by_duckdb(
    object_store: ObjectStore, tmp_path: Path
) -> None:
    """The SQL as it is printed, with the extension httpfs and a secret. The address needs no escapes: this server
    does not encode the keys that it lists, although duckdb asks it to."""
    local = archives.written(tmp_path / "archive", {"orders": events(0, 10)})
    archive = Archive(object_store.path("views"))
    commit = uploaded(local, archive)
    with archive.writing():
        archive.add(commit, [None] * len(commit.files))
    sql = views_sql(archive.path, "duckdb")
    query = 'SELECT "offset", key, props.n FROM orders ORDER BY 1'
    assert answered(archive.path, sql, query) == [[each, f"k{each % 3}", each] for each in range(10)]
    dated = "SELECT sum(props.n)::int FROM orders WHERE date = DATE '1970-01-02'"
    assert answered(archive.path, sql, dated) == [[2 + 3]]
