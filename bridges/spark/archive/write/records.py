"""Kafka records as rows of the archive: nearly all in C, others one by one, with identical results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bridges.kafka.consume._fetch import Run
from bridges.kafka.records.encode import MESSAGE, SECTIONS
from bridges.kafka.records.envelope import BARE, DATA_VALUE, SECTIONS_VALUE
from bridges.kafka.records.fast_encode import EventEncoder
from bridges.kafka.records.headers import BODY
from bridges.kafka.records.record import KafkaRecord
from bridges.spark.archive.contents.decode import HEADERS, KAFKA_RECORD, with_record
from bridges.spark.archive.contents.messages import MESSAGE_COLUMNS
from bridges.spark.columns import schema
from bridges.spark.columns.batch_decoder import Int64s
from bridges.spark.columns.rows import message_columns, placed

if TYPE_CHECKING:
    from bridges.kafka.consume._fetch import Binaries

_HEADER: Final = HEADERS.value_type
_READ: Final = {BARE: [bytes((DATA_VALUE,)), bytes((SECTIONS_VALUE,))], BODY: [SECTIONS, MESSAGE]}
"""The mappings that this version reads: the first byte of `amqp.bare`, and the contents of `amqp.body` (KM-13)."""


class RecordColumns(NamedTuple):
    """Parts of the records of a partition; times in milliseconds since 1970, kinds as Kafka's client numbers them."""

    offsets: Int64s
    times: Int64s
    kinds: pa.Array
    keys: pa.Array
    values: pa.Array
    headers: pa.Array


def record_columns(records: Sequence[KafkaRecord], count: int) -> RecordColumns:
    """The columns of the first `count` records."""
    found = _of_run(records) if isinstance(records, Run) else one_by_one(records)
    if count == len(records):
        return found
    return RecordColumns(*(column[:count] for column in found))


def one_by_one(records: Sequence[KafkaRecord]) -> RecordColumns:
    """The columns of records of any client."""
    stamps = [each.timestamp() for each in records]
    headers = [_header_items(each) for each in records]
    return RecordColumns(
        np.fromiter((each.offset() for each in records), np.int64, len(records)),
        np.fromiter((time for _, time in stamps), np.int64, len(records)),
        pa.array([kind for kind, _ in stamps], pa.int32()),
        pa.array([each.key() for each in records], pa.binary()),
        pa.array([each.value() for each in records], pa.binary()),
        pa.array(headers, HEADERS),
    )


def _header_items(record: KafkaRecord) -> list[dict[str, str | bytes | None]] | None:
    headers = record.headers()
    return None if headers is None else [{"key": name, "value": content} for name, content in headers]


def _of_run(run: Run) -> RecordColumns:
    count = len(run)
    places, times, kinds, keys, values, lists, names, contents, ascii_names = run.columns()
    headers = one_by_one(run).headers if not ascii_names else _lists(count, lists, names, contents)
    return RecordColumns(
        np.frombuffer(places, np.int64),
        np.frombuffer(times, np.int64),
        pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(kinds)]),
        _binaries(count, keys, pa.binary()),
        _binaries(count, values, pa.binary()),
        headers,
    )


def _binaries(count: int, buffers: Binaries, kind: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(kind, count, [None if each is None else pa.py_buffer(each) for each in buffers])


def _lists(count: int, lists: Binaries, names: Binaries, contents: Binaries) -> pa.Array:
    """Lists of headers whose names are ASCII, so that their bytes are valid text."""
    valid, offsets, _ = lists
    total = len(names[1]) // 4 - 1
    arrays = [_binaries(total, names, pa.string()), _binaries(total, contents, pa.binary())]
    items = pa.StructArray.from_arrays(arrays, fields=list(_HEADER))
    return pa.Array.from_buffers(
        HEADERS, count, [None if valid is None else pa.py_buffer(valid), pa.py_buffer(offsets)], children=[items]
    )


# -- rows


class PartitionRecords(NamedTuple):
    """The first `taken` of some records of a partition."""

    partition: int
    records: Sequence[KafkaRecord]
    taken: int


class RecordDecoder:
    """Turns the records of one topic into rows."""

    def __init__(self) -> None:
        self._encoder: Final = EventEncoder()

    def rows(self, parts: Iterable[PartitionRecords]) -> pa.RecordBatch:
        """Rows of `decode.FILE`, partition by partition."""
        known = [each for each in parts if each.taken]
        found = [record_columns(each.records, each.taken) for each in known]
        counts = [each.taken for each in known]
        partitions = np.repeat(np.array([each.partition for each in known], np.int32), counts)
        offsets, times = (np.concatenate([each[index] for each in found]) for index in (0, 1))
        kinds, keys, values, headers = (pa.concat_arrays([each[index] for each in found]) for index in range(2, 6))
        messages = [data for each in known for data in self._messages(each)]
        nulls = pa.nulls(len(messages), pa.binary())
        columns = message_columns(messages, _DECODED) | dict.fromkeys(MESSAGE_COLUMNS, nulls)
        decoded = placed(columns, pa.array(partitions), pa.array(offsets), times, keys)
        milliseconds = pa.array(times, mask=decoded.column("timestamp").is_valid().to_numpy(zero_copy_only=False))
        return with_record(decoded, _record(kinds, values, headers, decoded.column("body"), milliseconds))

    def _messages(self, part: PartitionRecords) -> Iterable[bytes]:
        events, _ = self._encoder.events(part.records, part.partition)
        return map(_DATA, events if part.taken == len(events) else events[: part.taken])


_DATA: Final = itemgetter(0)
_DECODED: Final = tuple(name for name in schema.COLUMNS if name not in MESSAGE_COLUMNS)
"""All columns but the messages, which are encoded from the record later (bridges.spark.archive.contents.messages)."""


def _record(kinds: pa.Array, values: pa.Array, headers: pa.Array, body: pa.Array, times: pa.Array) -> pa.StructArray:
    same = pc.fill_null(pc.equal(values, body), False)
    own = pa.nulls(len(values), pa.binary()) if same.true_count == len(same) else _unless(same, values)
    return pa.StructArray.from_arrays([kinds, same, own, headers, times], fields=list(KAFKA_RECORD))


def _unless(same: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(same, pa.scalar(None, pa.binary()), values)


def count_unknown(rows: pa.RecordBatch) -> int:
    """The records whose headers name a mapping that `RecordReader` does not know (KM-13).

    The reader treats such a record as one that no gateway wrote; the record itself is archived unchanged.
    """
    headers = rows.column("record").field("headers")
    items = headers.flatten()
    names = items.field("key")
    if not pc.any(pc.is_in(names, pa.array(list(_READ)))).as_py():
        return 0
    unknown = np.zeros(len(items), bool)
    for name, read in _READ.items():
        at = pc.indices_nonzero(pc.equal(names, name)).to_numpy()
        contents = items.field("value").take(pa.array(at))
        if name == BARE:
            contents = pc.binary_slice(contents, 0, 1)
        strange = pc.and_(pc.is_valid(contents), pc.invert(pc.is_in(contents, pa.array(read, pa.binary()))))
        unknown[at[strange.to_numpy(zero_copy_only=False)]] = True
    owners = pc.list_parent_indices(headers).to_numpy()
    return len(np.unique(owners[unknown]))
