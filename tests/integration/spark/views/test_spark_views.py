"""The same views in Spark, and JSON bodies of any DataFrame as columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bridges.spark.archive.read import ArchiveSelection, read_archive
from bridges.spark.archive.store import Archive
from bridges.spark.views.views import ViewRequest, create_views, with_json
from tests.support.spark.views import EXPECTED, ODD_NAME, QUERY, SCHEMA, also_new, archived

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def archive(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Archive:
    found = archived(tmp_path_factory.mktemp("views") / "archive")
    assert create_views(spark, found.path) == ["orders_eu", "raw", "typed"]
    return found


@pytest.mark.usefixtures("archive")
def test_values_have_the_types_that_were_seen(spark: SparkSession) -> None:
    query = QUERY.format(view="orders_eu", odd=f"`{ODD_NAME.replace('`', '``')}`", date="date")
    assert tuple(spark.sql(query).collect()[0]) == EXPECTED
    fields = {each.name: each.dataType.simpleString() for each in spark.table("orders_eu").schema["props"].dataType}
    assert (fields["n"], fields["color_2"], fields["at"], fields["u"]) == (
        "bigint", "string", "timestamp", "decimal(20,0)"
    )  # fmt: skip
    assert spark.sql("SELECT props.`line\\nbreak` FROM orders_eu".replace("\\n", "\n")).first()[0] is True


@pytest.mark.parametrize("layouts", ["old", "mixed"])
def test_archives_of_older_versions_are_read_as_ever(spark: SparkSession, tmp_path: Path, layouts: str) -> None:
    found = archived(tmp_path / "archive", old=True)
    times = 1
    if layouts == "mixed":
        also_new(found)
        times = 2
    create_views(spark, found.path, ViewRequest(("orders/eu",), prefix=f"{layouts}_"))
    query = QUERY.format(view=f"{layouts}_orders_eu", odd=f"`{ODD_NAME.replace('`', '``')}`", date="date")
    wanted = tuple(each * times if isinstance(each, int) else each for each in EXPECTED)
    assert tuple(spark.sql(query).collect()[0]) == wanted
    frame = read_archive(spark, found, ArchiveSelection(("orders/eu",)))
    shown = frame.selectExpr("properties.message_id.text", "size(delivery_annotations)", "body_value", "body_kind")
    assert {tuple(row) for row in shown.collect()} == {("7", 0, None, "data")}
    assert frame.where("properties.message_id.text = '7'").count() == 50 * times
    assert frame.select("properties.message_id").where("message_id is not null").count() == 50 * times


@pytest.mark.usefixtures("archive")
def test_bytes_and_dates(spark: SparkSession) -> None:
    assert [tuple(row) for row in spark.sql("SELECT DISTINCT key, body, schema_id FROM raw").collect()] == [
        (bytearray(b"\xff\x00"), bytearray(b"\x00\x00\x00\x01\x02avro\xff"), 258)
    ]
    typed = spark.sql("SELECT schema_id, min(json.id), max(json.id), count(body) FROM typed GROUP BY 1").collect()
    assert [tuple(row) for row in typed] == [(7, 0, 4, 5)]
    day = spark.sql("SELECT count(*) FROM orders_eu WHERE date = DATE'2026-11-22'")
    assert day.collect()[0][0] == 24
    assert "PartitionFilters: [isnotnull(date" in day._jdf.queryExecution().executedPlan().toString()


def test_json_of_any_frame(spark: SparkSession, archive: Archive, tmp_path: Path) -> None:
    frame = with_json(read_archive(spark, archive, ArchiveSelection(("orders/eu",))), SCHEMA)
    found = frame.selectExpr("sum(json.id)", "count(json.name)", "count_if(json_mistake)").first()
    assert tuple(found) == (EXPECTED[8], 45, 5)
    wrong = with_json(frame.drop("json", "json_mistake"), SCHEMA.replace("integer", "boolean"))
    counted = wrong.selectExpr("count(json.id)", "count(json.name)", "count_if(json_mistake)").first()
    assert tuple(counted) == (0, 45, 50)
    schema = tmp_path / "schema.json"
    schema.write_text(SCHEMA)
    create_views(spark, archive.path, ViewRequest(("orders/eu",), schema, prefix="typed "))
    assert spark.table("typed_orders_eu").select("json.*").columns == ["id", "name"]
