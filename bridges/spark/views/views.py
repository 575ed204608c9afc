"""The views of an archive as SQL text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from bridges.spark.archive.store import Archive
from bridges.spark.errors import PipelineError
from bridges.spark.views.dialects import Dialect, DuckdbSql
from bridges.spark.views.json_type import JsonType, from_schema
from bridges.spark.views.profile import profiles
from bridges.spark.views.sql import view, view_names

_DIALECTS: Final[Mapping[str, Dialect]] = {"duckdb": DuckdbSql()}


@dataclass(frozen=True)
class ViewRequest:
    """Which views are made, and what they are derived from."""

    addresses: Sequence[str] = ()
    """Default: all."""
    schema: Path | None = None
    """A JSON Schema of the bodies; default: inferred from the sample."""
    prefix: str = ""
    """Of the views' names."""
    files: int = 100
    """The number of files of each address that are read, the newest first."""
    sample: int = 1000
    """The number of bodies of each address that are read."""


def views_sql(path: Path, engine: str, request: ViewRequest = ViewRequest()) -> str:
    """Statements for an engine (`duckdb`) that create one view for each address. Raises `PipelineError`."""
    return "\n".join(_statements(Archive(path), _DIALECTS[engine], request))


def _statements(archive: Archive, dialect: Dialect, request: ViewRequest) -> list[str]:
    kind = None if request.schema is None else _schema(request.schema)
    found = profiles(archive, request.addresses, files=request.files, sample=request.sample)
    names = view_names([each.address for each in found], request.prefix)
    return [view(each, name, dialect, kind) for name, each in zip(names, found, strict=True)]


def _schema(path: Path) -> JsonType:
    try:
        return from_schema(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path} cannot be read: {error}") from None
    except PipelineError as error:
        raise PipelineError(f"{path}: {error}") from None
