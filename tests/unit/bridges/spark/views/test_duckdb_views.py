"""The views run in duckdb: names quoted, values of the types that were seen, mistakes null and marked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import pytest

from bridges.spark.archive.store import Archive
from bridges.spark.errors import PipelineError
from bridges.spark.views.sql import view_names
from bridges.spark.views.views import ViewRequest, views_sql
from tests.support.spark.pipeline import here
from tests.support.spark.report import START
from tests.support.spark.views import EXPECTED, HOURS, ODD_NAME, QUERY, SCHEMA, also_new, archived


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Archive:
    return archived(tmp_path_factory.mktemp("views") / "archive")


@pytest.mark.parametrize("layouts", ["old", "mixed"])
def test_archives_of_older_versions_have_the_same_views(tmp_path: Path, layouts: str) -> None:
    found = archived(tmp_path / "archive", old=True)
    times = 1
    if layouts == "mixed":
        also_new(found)
        times = 2
    (row,) = opened(found.path).execute(QUERY.format(view="orders_eu", odd=quoted(ODD_NAME), date="date")).fetchall()
    assert row == tuple(each * times if isinstance(each, int) else each for each in EXPECTED)
    query = "SELECT DISTINCT message_id, correlation_id, body IS NULL FROM orders_eu"
    assert opened(found.path).execute(query).fetchall() == [("7", None, False)]


def opened(path: Path, request: ViewRequest = ViewRequest()) -> Any:  # noqa: B008
    """A connection with the views."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(views_sql(path, "duckdb", request))
    return connection


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def test_values_have_the_types_that_were_seen(archive: Archive) -> None:
    connection = opened(archive.path)
    (found,) = connection.execute(
        QUERY.format(view="orders_eu", odd=quoted(ODD_NAME), date="date")
    ).fetchall()
    assert found == EXPECTED
    row = connection.execute('SELECT props.*, timestamp FROM orders_eu WHERE "offset" = 3').fetchall()[0]
    names = [each[0] for each in connection.description]
    values = dict(zip(names, row, strict=True))
    assert {values["Color"], values["color_2"]} == {"RED", "red"}
    assert (values["(empty)"], values["line\nbreak"]) == ("empty", True)
    assert round(values["at"].timestamp() * 1000) == START
    assert round(values["timestamp"].timestamp() * 1000) == START + 3 * HOURS


def test_bytes_stay_bytes_and_have_a_schema_id(archive: Archive) -> None:
    found = opened(archive.path).execute("SELECT DISTINCT key, body, schema_id FROM raw").fetchall()
    assert found == [(b"\xff\x00", b"\x00\x00\x00\x01\x02avro\xff", 258)]


def test_json_after_the_id_of_its_schema(archive: Archive) -> None:
    query = "SELECT schema_id, min(json.id), max(json.id), count(body) FROM typed GROUP BY 1"
    assert opened(archive.path).execute(query).fetchall() == [(7, 0, 4, 5)]


def test_one_date_opens_its_files(archive: Archive) -> None:
    plan = opened(archive.path).execute(
        "EXPLAIN ANALYZE SELECT count(*) FROM orders_eu WHERE date = '2026-11-22'"
    ).fetchall()[0][1]  # fmt: skip
    assert "Scanning Files: 1/3" in plan


def test_a_schema_of_the_bodies(archive: Archive, tmp_path: Path) -> None:
    schema = tmp_path / "orders.json"
    schema.write_text(SCHEMA.replace("integer", "boolean"))
    connection = opened(archive.path, ViewRequest(("orders/eu",), schema, prefix="my "))
    counted = "SELECT count(json.id), count(json.name), sum(json_mistake::int) FROM my_orders_eu"
    (found,) = connection.execute(counted).fetchall()
    assert (found[1], found[2]) == (45, 5), "duckdb makes booleans of numbers"


def test_the_command(archive: Archive, tmp_path: Path) -> None:
    out = tmp_path / "views.sql"
    done = here("views", archive.path, "--engine", "duckdb", "--address", "raw", "--out", out)
    assert (done.returncode, done.stdout) == (0, "")
    assert out.read_text() == views_sql(archive.path, "duckdb", ViewRequest(("raw",)))
    closed = here("views", archive.path, "--out", out / "views.sql")
    assert (closed.returncode, closed.stderr) == (1, f"{out}/views.sql: Not a directory\n")
    both = here("views", archive.path)
    assert both.stdout.count('CREATE OR REPLACE VIEW "') == 3
    unknown = here("views", archive.path, "--address", "no")
    assert (unknown.returncode, "has no address no (it has: orders/eu, raw, typed)" in unknown.stderr) == (1, True)
    wrong = here("views", archive.path, "--json-schema", out)
    assert (wrong.returncode, "name it with --address" in wrong.stderr) == (2, True)


def test_names_of_views() -> None:
    addresses = ["orders/eu", "orders-eu", "Orders/EU", "\u6ce8\u6587", ""]
    assert view_names(addresses) == ["orders_eu", "orders_eu_2", "Orders_EU_3", "__", "_"]


def test_an_empty_archive(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "archive")
    archive.path.mkdir()
    with archive.writing(), pytest.raises(PipelineError, match="has no events yet"):
        views_sql(archive.path, "duckdb")


def test_a_path_with_a_pattern_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"contains \[, which engines read as a pattern"):
        views_sql(archived(tmp_path / "a[1]").path, "duckdb")
