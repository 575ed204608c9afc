"""Payloads of a schema registry are columns of views in Spark; what cannot be decoded is null, with a reason."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING

import fastavro

from bridges.spark.columns.rows import EventRow
from bridges.spark.registry.client import RegistryOptions
from bridges.spark.registry.frames import create_payload_view
from tests.support.amqp.messages import message
from tests.support.spark import archives
from tests.support.spark.registry import registry
from tests.support.spark.report import START

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_view_has_the_fields_of_its_schemas(spark: SparkSession, tmp_path: Path) -> None:
    first = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
    second = {**first, "fields": [*first["fields"], {"name": "color", "type": "string", "default": "red"}]}
    bodies = [b"\0\0\0\0\x63x", b"no schema"]
    for number, schema in ((1, first), (2, second)):
        file = io.BytesIO()
        fastavro.schemaless_writer(file, schema, {"id": number, "color": "blue"})
        bodies += [b"\0" + number.to_bytes(4) + file.getvalue()] * 5
    bodies.append(bodies[-1] + b"more")
    rows = [EventRow(0, at, START, None, message(body)) for at, body in enumerate(bodies)]
    archive = archives.written(tmp_path / "archive", {"orders": rows})
    with registry() as server:
        server.register(1, first)
        server.register(2, second)
        create_payload_view(spark, archive.path, "orders", RegistryOptions(server.url), "decoded_orders")
        query = "SELECT schema_id, json.id, json.color, payload_mistake, count(*) FROM decoded_orders GROUP BY ALL"
        found = {tuple(row) for row in spark.sql(query).collect()}
    assert found == {
        (1, 1, None, None, 5),
        (2, 2, "blue", None, 5),
        (2, None, None, "does not match schema 2: ValueError: bytes follow the value", 1),
        (99, None, None, "the registry has no schema 99", 1),
        (None, None, None, "the body does not begin with a zero byte and the id of a schema", 1),
    }
