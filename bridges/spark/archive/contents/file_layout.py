"""The layout of an archive's files: half the columns of docs/columns.md, from which all others are restored.

Columns that few events have share one map, `entries`, whose keys are the names of promoted columns:
`message_annotations.x-opt-a`, `body_fields.order.id`, `properties.message_id`, `body_value`. Files of older versions
have the columns themselves. `record.headers` is null where `application_properties` have the same names and contents
in the same order. `restored` reads all of that (docs/decisions/0044-columns-of-files.md).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from bridges.spark.archive.contents.decode import DDL, FILE
from bridges.spark.columns import schema
from bridges.spark.columns.batch_decoder import Int64s
from bridges.spark.columns.value_arrays import TYPES, VALUE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

ENTRIES: Final = "entries"
_MAP: Final = TYPES[schema.ENTRIES]
_MAPS: Final = ("delivery_annotations", "message_annotations", "body_fields", "footer")
_VALUE: Final = "body_value"
_PROPERTIES: Final = "properties"
_IDS: Final = ("message_id", "correlation_id")
MOVED: Final = frozenset({*_MAPS, _VALUE})
"""Columns that files do not have; the fields of `properties` that are values are left out too."""
_APPLICATION: Final = "application_properties"
_RECORD: Final = "record"
_RECORD_TYPE: Final = FILE.field(_RECORD).type
_HEADERS_TYPE: Final = _RECORD_TYPE.field("headers").type
_FILE_PROPERTIES: Final = pa.struct([each for each in FILE.field(_PROPERTIES).type if each.name not in _IDS])


def _stored_fields() -> Iterator[pa.Field]:
    for each in FILE:
        if each.name == _VALUE:
            yield pa.field(ENTRIES, _MAP)
        elif each.name not in MOVED:
            yield each.with_type(_FILE_PROPERTIES) if each.name == _PROPERTIES else each


STORED: Final = pa.schema(list(_stored_fields()))
"""The columns of a file."""
READ_DDL: Final = f"{DDL}, `{ENTRIES}` {schema.ENTRIES}"
"""The columns of files of all versions, as a schema for Spark."""


def stored(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Rows of `decode.FILE`, or of an older version of it, as rows of `STORED`; those of `STORED` are unchanged."""
    if ENTRIES in rows.schema.names:
        return rows
    found: dict[str, pa.Array] = {name: rows.column(name) for name in rows.schema.names}
    found[ENTRIES] = _entries(rows)
    found[_PROPERTIES] = _cast(found[_PROPERTIES], _FILE_PROPERTIES)
    found[_RECORD] = _headers_once(_cast(found[_RECORD], _RECORD_TYPE), found[_APPLICATION])
    return pa.RecordBatch.from_arrays([found[each.name].cast(each.type) for each in STORED], schema=STORED)


def _cast(array: pa.StructArray, kind: pa.StructType) -> pa.StructArray:
    """A struct with these of its fields; fields that it lacks are null."""
    present = {each.name for each in array.type}
    children = [
        pc.struct_field(array, each.name).cast(each.type) if each.name in present else pa.nulls(len(array), each.type)
        for each in kind
    ]
    return pa.StructArray.from_arrays(children, fields=list(kind), mask=array.is_null())


def _headers_once(record: pa.StructArray, properties: pa.MapArray) -> pa.StructArray:
    """The records, without headers that repeat the application properties."""
    headers = pc.struct_field(record, "headers")
    same = _same_headers(headers, properties)
    if not same.any():
        return record
    kept = pc.if_else(pa.array(same), pa.scalar(None, _HEADERS_TYPE), headers)
    return _with_headers(record, kept)


def _with_headers(record: pa.StructArray, headers: pa.ListArray) -> pa.StructArray:
    fields = [headers if each.name == "headers" else pc.struct_field(record, each.name) for each in record.type]
    return pa.StructArray.from_arrays(fields, fields=list(record.type), mask=record.is_null())


def _same_headers(headers: pa.ListArray, properties: pa.MapArray) -> NDArray[np.bool_]:
    """The rows whose headers have the names, contents and order of the application properties."""
    counts = pc.fill_null(pc.list_value_length(headers), 0).to_numpy()
    owners, names, values = _flat(properties)
    same: NDArray[np.bool_] = (counts > 0) & (counts == np.bincount(owners, minlength=len(headers)))
    if same.any():
        these = pa.array(same)
        items = headers.filter(these).flatten()
        own = pa.array(same[owners])
        owners, names, contents = owners[same[owners]], names.filter(own), _contents(values.filter(own))
        equal = pc.and_(pc.equal(items.field("key"), names), pc.equal(items.field("value"), contents))
        same[owners[~pc.fill_null(equal, False).to_numpy(zero_copy_only=False)]] = False
    return same


def _contents(values: pa.StructArray) -> pa.BinaryArray:
    """The contents of headers with these values: strings and binaries; null for other types."""
    kinds, text = pc.struct_field(values, "type"), pc.struct_field(values, "text").cast(pa.binary())
    none = pa.scalar(None, pa.binary())
    binary = pc.if_else(pc.equal(kinds, "binary"), pc.struct_field(values, "binary"), none)
    return pc.if_else(pc.equal(kinds, "string"), text, binary)


def _entries(rows: pa.RecordBatch) -> pa.MapArray:
    places, names, values = [], [], []
    for row, name, value in _parts(rows):
        if len(row):
            places.append(row)
            names.append(name)
            values.append(value.cast(VALUE))
    if not places:
        none = _ends(np.empty(0, np.int64), len(rows))
        return pa.MapArray.from_arrays(none, pa.array([], pa.string()), pa.nulls(0, VALUE))
    owners, keys, items = np.concatenate(places), pa.concat_arrays(names), pa.concat_arrays(values)
    if len(places) > 1:
        order = pa.array(np.argsort(owners, kind="stable"))
        keys, items = keys.take(order), items.take(order)
    return pa.MapArray.from_arrays(_ends(owners, len(rows)), keys, items)


def _parts(rows: pa.RecordBatch) -> Iterator[tuple[Int64s, pa.StringArray, pa.StructArray]]:
    """Row numbers, names and values of the map's entries, by their origin."""
    for name in _MAPS:
        owners, keys, items = _flat(rows.column(name))
        yield owners, pc.binary_join_element_wise(f"{name}.", keys, ""), items
    properties = rows.column(_PROPERTIES)
    values = {f"{_PROPERTIES}.{each}": pc.struct_field(properties, each) for each in _IDS}
    for name, found in (values | {_VALUE: rows.column(_VALUE)}).items():
        there = pc.indices_nonzero(found.is_valid())
        yield there.to_numpy().astype(np.int64), pa.repeat(pa.scalar(name, pa.string()), len(there)), found.take(there)


def _flat(maps: pa.MapArray) -> tuple[Int64s, pa.StringArray, pa.StructArray]:
    """The entries of a column of maps, with the numbers of their rows."""
    ends = maps.offsets.to_numpy()
    start, count = int(ends[0]), int(ends[-1] - ends[0])
    owners = np.repeat(np.arange(len(maps)), np.diff(ends))
    return owners, maps.keys.slice(start, count), maps.items.slice(start, count)


def _ends(owners: Int64s, rows: int) -> pa.Int32Array:
    counts = np.bincount(owners, minlength=rows)
    return pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))


# -- restoring


def read_columns(wanted: Iterable[str]) -> frozenset[str]:
    """The columns, of files of all versions, that `restored` needs for these."""
    found = frozenset(wanted)
    found |= {ENTRIES} if found & (MOVED | {_PROPERTIES}) else set()
    return found | {_APPLICATION} if _RECORD in found else found


def restored(rows: pa.RecordBatch, wanted: Collection[str] = tuple(FILE.names)) -> pa.RecordBatch:
    """The wanted columns of `decode.FILE`, as far as the file has them, whatever its version."""
    names = rows.schema.names
    flat = _flat(rows.column(ENTRIES)) if ENTRIES in names else None
    found = {
        name: rows.column(name) if flat is None else _restored(rows, name, flat)
        for name in wanted
        if name in names or (flat is not None and name in MOVED)
    }
    if _RECORD in found and _APPLICATION in names:
        found[_RECORD] = _restored_headers(rows.column(_RECORD), rows.column(_APPLICATION))
    return pa.RecordBatch.from_arrays(list(found.values()), names=list(found))


def _restored(rows: pa.RecordBatch, name: str, flat: tuple[Int64s, pa.StringArray, pa.StructArray]) -> pa.Array:
    if name in _MAPS:
        owners, keys, items = flat
        own = pc.starts_with(keys, f"{name}.")
        names = pc.utf8_slice_codeunits(keys.filter(own), len(name) + 1)
        of_rows = owners[own.to_numpy(zero_copy_only=False)]
        return pa.MapArray.from_arrays(_ends(of_rows, len(rows)), names, items.filter(own))
    if name == _VALUE:
        return _named(len(rows), _VALUE, flat)
    if name == _PROPERTIES:
        own = rows.column(name)
        fields = [
            _named(len(rows), f"{name}.{each.name}", flat) if each.name in _IDS else pc.struct_field(own, each.name)
            for each in FILE.field(name).type
        ]
        return pa.StructArray.from_arrays(fields, fields=list(FILE.field(name).type), mask=own.is_null())
    return rows.column(name)


def _restored_headers(record: pa.StructArray, properties: pa.MapArray) -> pa.StructArray:
    record = _cast(record, _RECORD_TYPE)
    headers = pc.struct_field(record, "headers")
    owners, names, values = _flat(properties)
    lacking = (record.is_valid().to_numpy(zero_copy_only=False) & headers.is_null().to_numpy(zero_copy_only=False))
    lacking &= np.bincount(owners, minlength=len(record)) > 0
    if not lacking.any():
        return record
    items = pa.StructArray.from_arrays([names, _contents(values)], fields=list(_HEADERS_TYPE.value_type))
    made = pa.ListArray.from_arrays(_ends(owners, len(record)), items).cast(_HEADERS_TYPE)
    return _with_headers(record, pc.if_else(pa.array(lacking), made, headers))


def _named(rows: int, name: str, flat: tuple[Int64s, pa.StringArray, pa.StructArray]) -> pa.StructArray:
    """The value of one entry of each row, null without it."""
    owners, keys, items = flat
    at = pc.indices_nonzero(pc.equal(keys, name)).to_numpy()
    places = np.full(rows, -1, np.int64)
    places[owners[at]] = at
    return items.take(pa.array(places, mask=places < 0))


# -- in Spark


def restored_frame(frame: DataFrame) -> DataFrame:
    """The columns of `decode.DDL` from a frame that was read with `READ_DDL`; the plan runs no Python."""
    from pyspark.sql import functions as F

    made = {name: F.when(F.col(ENTRIES).isNull(), F.col(name)).otherwise(_section(name)) for name in _MAPS}
    made[_VALUE] = F.coalesce(F.col(_VALUE), _entry(_VALUE))
    properties = F.col(_PROPERTIES)
    for each in _IDS:
        both = F.coalesce(F.col(f"{_PROPERTIES}.{each}"), _entry(f"{_PROPERTIES}.{each}"))
        properties = properties.withField(each, both)
    record = F.col(_RECORD).withField("headers", _headers_of(F.col(f"{_RECORD}.headers"), F.col(_APPLICATION)))
    return frame.withColumns({**made, _PROPERTIES: properties, _RECORD: record}).drop(ENTRIES)


def _headers_of(headers: Column, properties: Column) -> Column:
    from pyspark.sql import functions as F

    def header(entry: Column) -> Column:
        value = entry["value"]
        content = F.coalesce(value["text"].cast("binary"), value["binary"])
        return F.struct(entry["key"].alias("key"), content.alias("value"))

    made = F.when(F.size(properties) > 0, F.transform(F.map_entries(properties), header))
    return F.coalesce(headers, made)


def _entry(name: str) -> Column:
    from pyspark.sql import functions as F

    return F.try_element_at(F.col(ENTRIES), F.lit(name))


def _section(name: str) -> Column:
    from pyspark.sql import functions as F

    prefix = f"{name}."
    own = F.map_filter(F.col(ENTRIES), lambda key, _: F.startswith(key, F.lit(prefix)))
    return F.transform_keys(own, lambda key, _: F.substring(key, len(prefix) + 1, 2**31 - 1))
