"""Reads the ranges of a task of the data source as record batches (docs/columns.md).

Offsets, times and keys are annotations of the events; they are read from the columns, for all events of a batch at
once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from bridges.spark.columns.batch_decoder import Int64s
from bridges.spark.columns.rows import MessageColumns, message_columns, placed
from bridges.spark.datasource.options import ReadOptions
from bridges.spark.datasource.plan import (
    OffsetRange,
    ReadTask,
    attach_at_offset,
    available_ranges,
    error_text,
    not_an_event,
    read_current_info,
    same_log,
)
from bridges.spark.errors import PipelineError
from gateway.amqp.codec.codec import decode_all
from gateway.amqp.message import sections
from gateway.client.blocking import BlockingClient
from gateway.client.links import BlockingReceiver
from gateway.client.reconnecting import ReconnectingClient
from gateway.errors import AmqpError
from gateway.filters.position.event_stream import OFFSET, TIMESTAMP

_BATCH: Final = 5000
_IDLE: Final = 0.3
"""Seconds without an event after which the link is drained, since not every offset is an event."""
_KEY_NAMES: Final = ("x-opt-kafka-key", "event-streams-group-key")
"""Annotations with the key, in order of precedence: Kafka's own bytes are exact."""
_KEYS: Final = tuple(f"message_annotations.{name}" for name in _KEY_NAMES)
_OFFSET, _TIME = f"delivery_annotations.{OFFSET}", f"delivery_annotations.{TIMESTAMP}"
_PLACES: Final = (_OFFSET, _TIME, *_KEYS, "not_shown")
"""Columns that are always decoded: the position of a message, its key, whether it could be decoded."""


def read(options: ReadOptions, span: ReadTask) -> Iterator[pa.RecordBatch]:
    """The events of a task as record batches. Raises `PipelineError`."""
    count = 0
    try:
        with ReconnectingClient(options) as connection:
            for each in span.ranges:
                for batch in events(connection, options, each):
                    count += len(batch)
                    yield batch
            if count < sum(each.end - each.start for each in span.ranges):
                _check_retained(connection.client(), options, span)
    except AmqpError as error:
        raise PipelineError(error_text(options, error)) from None


def events(connection: ReconnectingClient, options: ReadOptions, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
    """The events of a range as record batches. Raises `PipelineError` and `AmqpError`."""
    known: BlockingClient | None = None
    receiver: BlockingReceiver | None = None
    next_offset, draining, confirmed = wanted.start, False, False
    while next_offset < wanted.end:
        if (client := connection.client()) is not known or receiver is None:
            known, receiver = client, attach_at_offset(client, options, wanted.partition, next_offset)
            draining = confirmed = False
        messages = receiver.rest() if draining else receiver.take(min(_BATCH, wanted.end - next_offset), _IDLE)
        if messages:
            batch, next_offset = _batch(options, wanted, messages)
            confirmed = False
            if len(batch):
                yield batch
        elif confirmed:
            break
        elif draining:  # a node that cannot reach its log also returns the credit: not the end
            read_current_info(client, options)
            confirmed = True
        draining = draining or not messages
    if receiver is not None:
        receiver.close()


def _check_retained(client: BlockingClient, options: ReadOptions, span: ReadTask) -> None:
    """Raise `PipelineError` if offsets were deleted from the log while it was read; other gaps are not events."""
    now = read_current_info(client, options)
    if same_log(options, span.log, now.log):
        starts = {each.partition: each.start for each in span.ranges}
        available_ranges(options, starts, {each.partition: each.end for each in span.ranges}, now.bounds)


def _batch(options: ReadOptions, wanted: OffsetRange, messages: Sequence[bytes]) -> tuple[pa.RecordBatch, int]:
    """The events within the range, and the offset after the last one."""
    found = message_columns(messages, (*options.columns, *_PLACES))
    try:
        offsets, times = _offsets_and_times(found)
    except (pa.ArrowInvalid, ValueError):
        raise PipelineError(not_an_event(options)) from None
    partitions = pa.repeat(pa.scalar(wanted.partition, pa.int32()), len(offsets))
    keys = _keys(found, messages) if "key" in options.columns else pa.nulls(len(offsets), pa.binary())
    batch = placed(found, partitions, pa.array(offsets), times, keys, options.columns)
    inside = (offsets >= wanted.start) & (offsets < wanted.end)
    return batch if inside.all() else batch.filter(pa.array(inside)), int(offsets[-1]) + 1


def _offsets_and_times(found: MessageColumns) -> tuple[Int64s, Int64s]:
    """Offset and time of each event. Raises `ValueError` if one has no offset, `ArrowInvalid` if it is not a number.

    An event without a time gets the start of 1970, as at the gateway.
    """
    offsets = found[_OFFSET].field("text").cast(pa.int64())
    if offsets.null_count:
        raise ValueError
    return offsets.to_numpy(), pc.fill_null(found[_TIME].field("long"), 0).to_numpy()


def _keys(found: MessageColumns, messages: Sequence[bytes]) -> pa.BinaryArray:
    """The keys in the gateway's form: Kafka's own bytes, or the text of the group key."""
    count = len(messages)
    keys = pa.nulls(count, pa.binary())
    for name in reversed(_KEYS):  # the first one takes precedence
        values = found[name]
        kinds = values.field("type")
        if kinds.null_count == count:
            continue
        if not pc.all(pc.is_in(kinds, pa.array(["binary", "string", "symbol", None]))).as_py():
            return _keys_one_by_one(messages)
        text = pc.if_else(pc.equal(kinds, "binary"), values.field("binary"), values.field("text").cast(pa.binary()))
        keys = text if kinds.null_count == 0 else pc.if_else(pc.is_valid(kinds), text, keys)
    return keys if found["not_shown"].null_count == count else _keys_one_by_one(messages)


def _keys_one_by_one(messages: Sequence[bytes]) -> pa.BinaryArray:
    return pa.array([_key(data) for data in messages], pa.binary())


def _key(data: bytes) -> bytes | None:
    try:
        layout = sections.walk(data)
        annotations = data[layout.ma : layout.bare]
        for name in _KEY_NAMES:
            if (encoded := sections.map_entry(annotations, name)) is not None:
                value = decode_all(encoded)
                return value if isinstance(value, bytes) else str(value).encode()
    except AmqpError:
        return None
    return None
