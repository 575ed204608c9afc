"""The views of an archive as SQL text, in a Spark session, and JSON bodies of any DataFrame as columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bridges.spark.archive.storage.paths import StoragePath
from bridges.spark.archive.store import Archive
from bridges.spark.errors import PipelineError
from bridges.spark.views.dialects import Dialect, DuckdbSql, SparkSql
from bridges.spark.views.json_type import JsonType, from_schema
from bridges.spark.views.profile import profiles
from bridges.spark.views.sql import distinct_fields, view, view_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_DIALECTS: Final[Mapping[str, Dialect]] = {"spark": SparkSql(), "duckdb": DuckdbSql()}


@dataclass(frozen=True)
class ViewRequest:
    """The views to create, and how to infer their columns."""

    addresses: Sequence[str] = ()
    """Default: all."""
    schema: Path | None = None
    """A JSON Schema of the bodies; default: inferred from the sample."""
    prefix: str = ""
    """The prefix of the views' names."""
    files: int = 100
    """The number of files of each address that are read, the newest first."""
    sample: int = 1000
    """The number of bodies of each address that are read."""


def views_sql(path: StoragePath, engine: str, request: ViewRequest = ViewRequest()) -> str:
    """Statements for `spark` or `duckdb` that create one view for each address. Raises `PipelineError`."""
    return "\n".join(_statements(Archive(path), _DIALECTS[engine], request).values())


def create_views(spark: SparkSession, path: StoragePath, request: ViewRequest = ViewRequest()) -> list[str]:
    """Create the views in the session's catalog; returns their names. Raises `PipelineError`."""
    statements = _statements(Archive(path), SparkSql(), request)
    for statement in statements.values():
        spark.sql(statement.rstrip(";\n"))
    return list(statements)


def with_json(frame: DataFrame, schema: JsonType | str, text: str = "CAST(body AS STRING)") -> DataFrame:
    """The DataFrame with JSON as columns `json` and `json_mistake`; `schema` may be the text of a JSON Schema.

    `text` is the SQL expression of the JSON. Texts that are not JSON objects, and fields of other types, become null
    with `json_mistake` true; no query fails. Raises `PipelineError` for a schema that does not describe an object.
    """
    kind = from_schema(schema) if isinstance(schema, str) else schema
    shown, mistake = SparkSql().parsed(text, distinct_fields(kind))
    return frame.selectExpr("*", f"{shown} AS json", f"{mistake} AS json_mistake")


def _statements(archive: Archive, dialect: Dialect, request: ViewRequest) -> dict[str, str]:
    kind = None if request.schema is None else _schema(request.schema)
    found = profiles(archive, request.addresses, files=request.files, sample=request.sample)
    names = view_names([each.address for each in found], request.prefix)
    return {name: view(each, name, dialect, kind) for name, each in zip(names, found, strict=True)}


def _schema(path: Path) -> JsonType:
    try:
        return from_schema(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} cannot be read: {error}") from None
    except PipelineError as error:
        raise PipelineError(f"{path}: {error}") from None
