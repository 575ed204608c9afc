"""Records in columns: C code takes only rows that are within their buffers, and says which one is not."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from confluent_kafka import KafkaError, Producer

from bridges.kafka.produce import _produce
from bridges.kafka.produce.client import BOUND
from bridges.kafka.produce.record_columns import BinaryColumn, OutgoingColumns
from tests.support.gateway.process import wait_until

NOWHERE: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "log_level": 0}


def column(*ends: int, data: bytes | None = b"abcdef", valid: bytes | None = None, first: int = 0) -> BinaryColumn:
    return BinaryColumn(struct.pack(f"{len(ends)}i", *ends), data, valid, first)


GOOD = OutgoingColumns(
    2,
    struct.pack("2i", 0, 0),
    struct.pack("2q", 1, 2),
    column(0, 1, 2, valid=b"\x02"),
    column(0, 3, 3),
    struct.pack("3i", 0, 1, 2),
    0,
    column(0, 1, 2),
    column(0, 0, 6, valid=b"\xfe"),
)
BAD = {
    "partitions": struct.pack("i", 0),
    "times_ms": struct.pack("q", 1),
    "keys": column(0, 1),
    "values": column(0, 3, 7),
    "headers": struct.pack("3i", 0, 1, 3),
    "first_header": 1,
    "names": column(0, 2, 1),
    "contents": column(-1, 0, 6),
}


@pytest.fixture
def client() -> Producer:
    assert BOUND
    return Producer({**NOWHERE, "queue.buffering.max.messages": 2})


def test_rows_are_handed_over_until_the_queue_is_full(client: Producer) -> None:
    kept = _produce.Outbox(client)
    assert kept.put_columns("topic", GOOD, 0) == (2, 0)
    assert kept.put_columns("topic", GOOD, 1) == (1, KafkaError._QUEUE_FULL)
    left, failed, reported = kept.settle(0)
    assert (left >= 2, failed, reported) == (True, 0, 0)
    client.purge()
    found: list[tuple[int, int, int]] = []
    wait_until(lambda: found.append(kept.settle(100)) or found[-1][0] == 0, "the reports")
    assert KafkaError._PURGE_QUEUE in {code for _, code, _ in found}
    assert kept.settle(0)[1] == 0


@pytest.mark.parametrize("name", BAD)
def test_a_row_outside_of_its_buffers_is_refused(client: Producer, name: str) -> None:
    kept = _produce.Outbox(client)
    with pytest.raises(ValueError, match=r"outside of its buffers|fewer rows"):
        kept.put_columns("topic", GOOD._replace(**{name: BAD[name]}), 0)


def test_columns_of_other_kinds_are_refused(client: Producer) -> None:
    kept = _produce.Outbox(client)
    for name, value in (("size", "two"), ("keys", b""), ("values", (1, 2, 3, 4)), ("names", column(0, first=-1))):
        with pytest.raises((TypeError, ValueError)):
            kept.put_columns("topic", GOOD._replace(**{name: value}), 0)


def test_a_value_is_read_at_its_row_and_null_is_not_empty() -> None:
    assert [each[2:] for each in GOOD.rows()] == [(None, b"abc", [("a", None)]), (b"b", b"", [("b", b"abcdef")])]
    assert column(0, 0, 2, 6, first=1).at(1) == b"cdef"
