"""Encoded messages as record batches in the layout of `schema` (docs/columns.md).

Messages of the same shape are decoded together (`batch_decoder`, `arrays`), all others one by one (`row_decoder`). Both
ways give the same columns (docs/decisions/0022-columns.md), and every message has its row.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridges.spark.columns import schema
from bridges.spark.columns.arrays import STRUCTS, NotText, arrays
from bridges.spark.columns.batch_decoder import Int64s, MessageBuffer
from bridges.spark.columns.message_shape import shape_of
from bridges.spark.columns.row_decoder import RowDecoder
from bridges.spark.columns.value_arrays import TYPES

MessageColumns: TypeAlias = dict[str, pa.Array]
"""The columns that are from the message itself, by name."""
_MIN_TOGETHER: Final = 8
"""Fewer messages than this are decoded one by one."""
_SHAPES: Final = 8
"""The most shapes that are tried on one batch."""
_MAX_BYTES: Final = 1 << 30
"""The most bytes of messages in one buffer, whose offsets have 32 bits."""
_FIRST_TIME, _LAST_TIME = -62_135_596_800_000, 253_402_300_799_999
"""Milliseconds since 1970 of the years 1 to 9999, the range of a Spark timestamp."""

_POSITION: Final = frozenset({"partition", "offset", "timestamp", "key"})
"""The columns that are not from the message itself."""

SCHEMA: Final = pa.schema(
    pa.field(name, STRUCTS[name] if name in STRUCTS else TYPES[kind]) for name, kind in schema.COLUMNS.items()
)
"""The schema of `record_batch`: `schema.DDL` in terms of Arrow."""


class EventRow(NamedTuple):
    """A message and its position in a log: `message` is encoded, as the gateway would deliver it."""

    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    message: bytes


def record_batch(events: Iterable[EventRow]) -> pa.RecordBatch:
    """A `pyarrow.RecordBatch` of `SCHEMA`, one row per event in their order."""
    found = list(events)
    partitions, offsets, times, keys, messages = zip(*found, strict=True) if found else ((),) * 5
    columns_of = message_columns(messages)
    return placed(
        columns_of,
        pa.array(partitions, pa.int32()),
        pa.array(offsets, pa.int64()),
        np.array(times, np.int64),
        pa.array(keys, pa.binary()),
    )


def placed(
    found: MessageColumns,
    partitions: pa.Array,
    offsets: pa.Array,
    times_ms: Int64s,
    keys: pa.Array,
    names: Sequence[str] = tuple(schema.COLUMNS),
) -> pa.RecordBatch:
    """A record batch of `message_columns` and the messages' positions; times in milliseconds since 1970.

    `names` are the columns of the batch, in the order of the schema.
    """
    shown = (times_ms >= _FIRST_TIME) & (times_ms <= _LAST_TIME)
    micros = np.where(shown, times_ms, 0) * 1000
    columns_of = found | {
        "partition": partitions,
        "offset": offsets,
        "timestamp": pa.array(micros, mask=~shown).cast(TYPES["timestamp"]),
        "key": keys,
    }
    return pa.RecordBatch.from_arrays([columns_of[name] for name in names], schema=_schema(tuple(names)))


@cache
def _schema(names: tuple[str, ...]) -> pa.Schema:
    return SCHEMA if len(names) == len(SCHEMA) else pa.schema([SCHEMA.field(name) for name in names])


def message_columns(messages: Sequence[bytes], wanted: Iterable[str] = schema.COLUMNS) -> MessageColumns:
    """The columns with these names, of those that are from the messages themselves, in the order of the messages.

    A name may also be that of a promoted entry of an annotations section (`schema.promoted`).
    """
    wanted = tuple(name for name in wanted if name not in _POSITION)
    if len(messages) < _MIN_TOGETHER or sum(map(len, messages)) > _MAX_BYTES:
        return _one_by_one(messages, wanted)
    parts, left = _by_shape(messages, wanted)
    if len(left):
        parts.append((left, _one_by_one([messages[row] for row in left.tolist()], wanted)))
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    return {
        name: pa.concat_arrays([found[name] for _, found in parts]).take(pa.array(order)) for name in parts[0][1]
    }


def _one_by_one(messages: Iterable[bytes], wanted: Collection[str]) -> MessageColumns:
    rows = RowDecoder()
    for message in messages:
        rows.add(message)
    found = rows.arrays()
    return {name: found[name] if name in found else _promoted(found, name) for name in wanted}


def _promoted(found: MessageColumns, name: str) -> pa.StructArray:
    """The values of one entry of a section with annotations."""
    section, _, entry = name.partition(".")
    rows, values = entries_named(found[section], entry)
    places = np.full(len(found[section]), -1, np.int64)
    places[rows] = np.arange(len(rows))
    return values.take(pa.array(places, mask=places < 0))


def entries_named(entries: pa.MapArray, name: str) -> tuple[Int64s, pa.StructArray]:
    """The entries of this name in a column of maps: the rows that have one, and their values."""
    at = pc.indices_nonzero(pc.equal(entries.keys, name))
    rows = np.searchsorted(entries.offsets.to_numpy(), at.to_numpy(), side="right") - 1
    return rows, entries.items.take(at)


Part: TypeAlias = tuple[Int64s, MessageColumns]
"""Numbers of messages, and their columns."""


def _by_shape(messages: Sequence[bytes], wanted: Collection[str]) -> tuple[list[Part], Int64s]:
    """The columns of messages that could be decoded together, and the numbers of the other messages."""
    together, parts = MessageBuffer(messages), []
    left, unlike = np.arange(len(messages)), []
    for _ in range(_SHAPES):
        if len(left) < _MIN_TOGETHER:
            break
        part = _of_first_shape(messages, together, left, wanted)
        if part is None:
            unlike.append(left[:1])
            left = left[1:]
        else:
            parts.append(part)
            left = np.setdiff1d(left, part[0], assume_unique=True)
    return parts, np.sort(np.concatenate([left, *unlike]))


def _of_first_shape(
    messages: Sequence[bytes], together: MessageBuffer, left: Int64s, wanted: Collection[str]
) -> Part | None:
    shape = shape_of(messages[left[0]])
    if shape is None:
        return None
    found = together.read(shape, left)
    if not len(found.rows):
        return None
    try:
        return found.rows, arrays(together, shape, found, wanted)
    except NotText:
        return None
