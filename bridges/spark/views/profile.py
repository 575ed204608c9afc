"""Profiles the events of an address: types of properties, and whether keys and bodies are text or JSON.

Reads Parquet files without Spark, and only the necessary columns. Bodies are sampled.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from bridges.spark.archive.contents.file_layout import ENTRIES, read_columns, restored
from bridges.spark.archive.storage.paths import StoragePath, readable
from bridges.spark.archive.store import Archive
from bridges.spark.errors import PipelineError
from bridges.spark.views.json_type import NULL, JsonType, merged, type_of

_ENTRY: Final = "application_properties.key_value"
_COLUMNS: Final = (f"{_ENTRY}.key", f"{_ENTRY}.value.type")
_BODY: Final = ("body_kind", "body", "body_value")
_GLOB: Final = frozenset("*?[]{}")
_SCHEMA_ID_BYTES: Final = 5


@dataclass
class AddressProfile:
    """The events of one address in the files that were read."""

    address: str
    folder: str
    """The absolute path of its files, for readers of folders."""
    rows: int = 0
    properties: dict[str, Counter[str]] = field(default_factory=dict)
    """Application properties by name, with the AMQP types of their values."""
    keys: int = 0
    text_keys: bool = True
    """Whether all keys are UTF-8."""
    bodies: int = 0
    """Number of bodies in the sample that are data sections or text."""
    text_bodies: bool = True
    """Whether all of them are UTF-8, ignoring schema ids."""
    json: JsonType = NULL
    """The common type of the bodies that are JSON objects."""
    json_bodies: int = 0
    layouts: set[bool] = field(default_factory=set)
    """Whether files have the layout of `contents.file_layout` (true), or that of older versions."""
    schema_ids: bool = True
    """Whether all bodies begin with a zero byte and four bytes of a schema id, as with a schema registry."""

    @property
    def is_json(self) -> bool:
        """Whether at least half of the bodies of the sample are JSON objects."""
        return self.json.kind == "struct" and 2 * self.json_bodies >= self.bodies

    @property
    def has_schema_ids(self) -> bool:
        """Whether bodies begin with schema ids."""
        return bool(self.bodies) and self.schema_ids


def profiles(
    archive: Archive, addresses: Sequence[str] = (), *, files: int = 100, sample: int = 1000
) -> list[AddressProfile]:
    """A profile of each address: of its last `files` files, with the first `sample` bodies of them.

    Raises `PipelineError`.
    """
    found: dict[str, list[StoragePath]] = {}
    folders: dict[str, str] = {}
    for _, file in archive.readable().live_files():
        found.setdefault(file.address, []).append(archive.path / file.path)  # in another folder for its grace time
        folders[file.address] = str((archive.path / file.folder.partition("/")[0]).absolute())
    if not found:
        raise PipelineError(f"{archive.path} has no events yet")
    unknown = sorted(set(addresses) - set(found))
    if unknown:
        known = ", ".join(sorted(found)) or "none"
        raise PipelineError(f"the archive has no address {unknown[0]} (it has: {known})")
    if wild := _GLOB & set(str(archive.path.absolute())):
        raise PipelineError(f"{archive.path.absolute()} contains {min(wild)}, which engines read as a pattern")
    chosen = sorted(addresses or found)
    return [
        _profile(AddressProfile(each, folders[each]), found[each][-files:], found[each][0], sample) for each in chosen
    ]


def _profile(found: AddressProfile, paths: Sequence[StoragePath], oldest: StoragePath, sample: int) -> AddressProfile:
    with pq.ParquetFile(readable(oldest)) as file:
        found.layouts.add(ENTRIES in file.schema_arrow.names)
    for path in reversed(paths):  # newest bodies first
        try:
            with pq.ParquetFile(readable(path)) as file:
                found.layouts.add(ENTRIES in file.schema_arrow.names)
                for batch in file.iter_batches(columns=["key", *_COLUMNS]):
                    _add(found, batch)
                if found.bodies < sample:
                    names = [name for name in read_columns(_BODY) if name in file.schema_arrow.names]
                    for batch in file.iter_batches(batch_size=256, columns=names):
                        _add_bodies(found, restored(batch, _BODY), sample)
                        if found.bodies >= sample:
                            break
        except (OSError, pa.ArrowException) as error:
            raise PipelineError(f"{path} cannot be read: {error}") from None
    return found


def _add(found: AddressProfile, batch: pa.RecordBatch) -> None:
    found.rows += len(batch)
    keys = batch.column("key").drop_null()
    found.keys += len(keys)
    found.text_keys = found.text_keys and _is_text(keys)
    entries = batch.column("application_properties")
    pairs = pa.RecordBatch.from_arrays([entries.keys, entries.items.field("type")], ["name", "type"])
    counted = pa.Table.from_batches([pairs]).group_by(["name", "type"]).aggregate([([], "count_all")])
    for row in counted.to_pylist():
        if row["type"] is not None:
            found.properties.setdefault(row["name"], Counter())[row["type"]] += row["count_all"]


def _is_text(values: pa.Array) -> bool:
    try:
        values.cast(pa.string()).validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _add_bodies(found: AddressProfile, batch: pa.RecordBatch, sample: int) -> None:
    for kind, body, value in zip(*(batch.column(index).to_pylist() for index in range(3)), strict=True):
        content = body if kind == "data" else (value or {}).get("text")
        if content is None or found.bodies >= sample:
            continue
        found.bodies += 1
        raw = content if isinstance(content, bytes) else content.encode()
        has_id = len(raw) >= _SCHEMA_ID_BYTES and raw[0] == 0
        found.schema_ids = found.schema_ids and has_id
        try:
            text = (raw[_SCHEMA_ID_BYTES:] if has_id else raw).decode()
        except UnicodeDecodeError:
            found.text_bodies = False
            continue
        _add_json(found, text)


def _add_json(found: AddressProfile, text: str) -> None:
    if not text.lstrip().startswith("{"):
        return
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    found.json_bodies += 1
    found.json = merged(found.json, type_of(document))
