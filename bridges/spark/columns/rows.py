"""Encoded messages as record batches in the layout of `schema` (docs/columns.md).

Messages of the same shape are decoded together (`batch_decoder`, `arrays`), all others one by one (`row_decoder`). Both
ways give the same columns (docs/decisions/0022-columns.md), and every message has its row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

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
    found: MessageColumns, partitions: pa.Array, offsets: pa.Array, times_ms: Int64s, keys: pa.Array
) -> pa.RecordBatch:
    """A record batch of `message_columns` and the messages' positions; times in milliseconds since 1970."""
    shown = (times_ms >= _FIRST_TIME) & (times_ms <= _LAST_TIME)
    micros = np.where(shown, times_ms, 0) * 1000
    columns_of = found | {
        "partition": partitions,
        "offset": offsets,
        "timestamp": pa.array(micros, mask=~shown).cast(TYPES["timestamp"]),
        "key": keys,
    }
    return pa.RecordBatch.from_arrays([columns_of[name] for name in schema.COLUMNS], schema=SCHEMA)


def message_columns(messages: Sequence[bytes]) -> MessageColumns:
    """The columns that are from the messages themselves, in the order of the messages."""
    if len(messages) < _MIN_TOGETHER or sum(map(len, messages)) > _MAX_BYTES:
        return _one_by_one(messages)
    parts, left = _by_shape(messages)
    if len(left):
        parts.append((left, _one_by_one([messages[row] for row in left.tolist()])))
    if len(parts) == 1:
        return parts[0][1]
    order = np.argsort(np.concatenate([rows for rows, _ in parts]))
    return {
        name: pa.concat_arrays([found[name] for _, found in parts]).take(pa.array(order)) for name in parts[0][1]
    }


def _one_by_one(messages: Iterable[bytes]) -> MessageColumns:
    rows = RowDecoder()
    for message in messages:
        rows.add(message)
    return rows.arrays()


Part: TypeAlias = tuple[Int64s, MessageColumns]
"""Numbers of messages, and their columns."""


def _by_shape(messages: Sequence[bytes]) -> tuple[list[Part], Int64s]:
    """The columns of messages that could be decoded together, and the numbers of the other messages."""
    together, parts = MessageBuffer(messages), []
    left, unlike = np.arange(len(messages)), []
    for _ in range(_SHAPES):
        if len(left) < _MIN_TOGETHER:
            break
        part = _of_first_shape(messages, together, left)
        if part is None:
            unlike.append(left[:1])
            left = left[1:]
        else:
            parts.append(part)
            left = np.setdiff1d(left, part[0], assume_unique=True)
    return parts, np.sort(np.concatenate([left, *unlike]))


def _of_first_shape(messages: Sequence[bytes], together: MessageBuffer, left: Int64s) -> Part | None:
    shape = shape_of(messages[left[0]])
    if shape is None:
        return None
    found = together.read(shape, left)
    if not len(found.rows):
        return None
    try:
        return found.rows, arrays(together, shape, found)
    except NotText:
        return None
