"""The columns of files: half of those of docs/columns.md, smaller than raw Parquet allows, and nothing is lost."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bridges.kafka.records.mapping import RecordReader
from bridges.spark.archive.contents.decode import FILE, with_record
from bridges.spark.archive.contents.file_layout import restored, stored
from bridges.spark.archive.contents.messages import with_messages
from bridges.spark.archive.write.files import DatedFiles, FileLimits
from bridges.spark.archive.write.records import PartitionRecords, RecordDecoder
from bridges.spark.archive.write.targets import StagingTarget
from bridges.spark.columns.rows import EventRow, record_batch
from gateway.amqp.codec.types import Symbol
from tests.support.amqp.messages import message
from tests.support.spark.archives import as_version_2

BEFORE = 99
"""Leaf columns of files of version 2."""
START = 1_700_000_000_000


class KafkaMessage(NamedTuple):
    """A record as a Kafka client has it."""

    at: int
    of_key: bytes | None
    content: bytes
    named: list[tuple[str, bytes | None]] | None
    time: int

    def key(self) -> bytes | None:
        return self.of_key

    def value(self) -> bytes:
        return self.content

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return self.named

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return self.at

    def timestamp(self) -> tuple[int, int]:
        return 1, self.time


def records(count: int, *, keys: bool, headers: bool) -> list[KafkaMessage]:
    """Payloads of 110 bytes, of which 40 are random."""
    chance = random.Random(1)
    found = []
    for at in range(count):
        content = b'{"id":%d,"name":"a customer","street":"some street","token":"%s"}' % (
            at, chance.randbytes(20).hex().encode(),
        )  # fmt: skip
        named: list[tuple[str, bytes | None]] = [
            ("color", chance.choice([b"red", b"blue"])), ("n", b"%d" % at), ("source", b"web"), ("version", b"1"),
            ("trace", chance.randbytes(8).hex().encode()), ("tenant", b"t%d" % chance.randrange(50)),
        ]  # fmt: skip
        key = b"k%d" % chance.randrange(5000) if keys else None
        found.append(KafkaMessage(at, key, content, named if headers else None, START + at * 7))
    return found


def rows(found: list[KafkaMessage]) -> pa.RecordBatch:
    return RecordDecoder().rows([PartitionRecords(0, found, len(found))])  # type: ignore[arg-type]


def raw_bytes(path: Path, found: list[KafkaMessage]) -> int:
    """The size of the same records as plain Parquet."""
    table = pa.table({
        "partition": pa.array([0] * len(found), pa.int32()),
        "offset": pa.array([each.at for each in found], pa.int64()),
        "timestamp": pa.array([each.time * 1000 for each in found], pa.timestamp("us", "UTC")),
        "key": pa.array([each.of_key for each in found], pa.binary()),
        "value": pa.array([each.content for each in found], pa.binary()),
        "headers": pa.array(
            [each.named and [{"key": name, "value": value} for name, value in each.named] for each in found],
            pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
        ),
    })  # fmt: skip
    pq.write_table(table, path, compression="zstd")
    return path.stat().st_size


@pytest.mark.parametrize(("keys", "headers"), [(False, False), (True, False), (True, True)])
def test_a_file_is_at_most_1_4_times_raw_parquet_and_has_half_the_columns(
    tmp_path: Path, keys: bool, headers: bool
) -> None:
    found = records(10_000, keys=keys, headers=headers)
    files = DatedFiles(StagingTarget(tmp_path), FileLimits())
    files.add("orders", stored(rows(found)))
    (report,) = files.close()
    assert pq.read_metadata(tmp_path / report.name).num_columns <= BEFORE / 2
    assert report.bytes / raw_bytes(tmp_path / "raw", found) <= 1.4


def odd_messages() -> list[bytes]:
    """Of every section, with values of many types."""
    return [
        message(b"1"),
        message(b"2", app={"a": "x", "n": 1}, message_id="m", correlation_id=b"c", da={"x": 1}),
        message(value={"order": {"id": 7}, "list": [1, "a"]}, ma={"x-opt-a": Symbol("s"), "x-opt-b": {"c": None}}),
        message(value="text", footer={"sum": 5}, message_id=17),
        message(None),
        b"\x01 no message",
    ]  # fmt: skip


def test_columns_of_any_message_come_back() -> None:
    events = [EventRow(0, at, START, None, data) for at, data in enumerate(odd_messages())]
    whole = with_record(record_batch(events))
    assert restored(stored(whole)).to_pylist() == whole.to_pylist()
    assert restored(stored(whole.slice(1, 3))).to_pylist() == whole.slice(1, 3).to_pylist()
    assert restored(stored(whole), ["footer", "offset"]).schema.names == ["footer", "offset"]
    assert stored(stored(whole)).equals(stored(whole))
    assert stored(whole.slice(0, 0)).num_rows == restored(stored(whole.slice(0, 0))).num_rows == 0


def test_rows_of_version_2_are_the_same_rows() -> None:
    events = [EventRow(0, at, START, None, data) for at, data in enumerate(odd_messages())]
    old = as_version_2(with_record(record_batch(events)))
    assert restored(stored(old)).to_pylist() == with_record(record_batch(events)).to_pylist()
    assert with_messages(restored(old)).column("bare_message").equals(old.column("bare_message"))


@pytest.mark.parametrize(
    ("headers", "once"),
    [
        ([("a", b"x"), ("b", b"\xff")], True),
        ([("a", b"x"), ("a", b"y")], False),
        ([("a", None)], False),
        ([], False),
        (None, False),
        ([("amqp.bare", b"\1")], False),
    ],
)
def test_headers_are_there_once_if_the_properties_tell_them(headers: Any, once: bool) -> None:
    found = rows([KafkaMessage(1, b"k", b"v", headers, START)] * 2)
    kept = stored(found).column("record").field("headers").to_pylist()
    assert (kept != found.column("record").field("headers").to_pylist()) == once
    assert restored(stored(found)).equals(found)
    assert restored(stored(found)).schema.names == FILE.names


@pytest.mark.parametrize("time", [2**62, -(2**62), 253_402_300_800_000, 253_402_300_799_999])
def test_a_time_that_no_calendar_has_is_kept(time: int) -> None:
    found = restored(stored(rows([KafkaMessage(1, b"k", b"v", None, time)])))
    (row,) = found.to_pylist()
    inside = time == 253_402_300_799_999
    assert (row["timestamp"] is None, row["record"]["timestamp_ms"]) == (not inside, None if inside else time)
    (again,) = with_messages(found).to_pylist()
    assert again["head"] + again["bare_message"] == RecordReader().encode(b"k", b"v", None, 0, 1, 1, time)
