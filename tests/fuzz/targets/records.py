"""Records of Kafka: a message comes back exactly, and whatever a record holds is a well-formed message, C as Python.

The first bytes cut the input into key, value and headers. A record passes a broker inside this process, so that the
events and the archive's rows of C, which are made of what a client fetched, are compared with Python's.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from confluent_kafka import Consumer, Producer, TopicPartition

from bridges.kafka.admin.embedded import EmbeddedKafka
from bridges.kafka.consume import poll, reader
from bridges.kafka.records.decode import from_record
from bridges.kafka.records.encode import to_record
from bridges.kafka.records.envelope import Header
from bridges.kafka.records.fast_encode import EventEncoder
from bridges.spark.archive.write.records import PartitionRecords, RecordDecoder
from gateway.amqp.message.section_index import SectionOffsets
from gateway.amqp.message.sections import walk
from gateway.errors import AmqpError
from tests.support.amqp.strategies import result_or_condition

WORDS = (b"amqp.bare", b"amqp.body", b"amqp.to", b"amqp.subject", b"sections", b"message", b"ce_id", b"content-type")
TOPIC = "records"
ENCODER = EventEncoder()
DECODER = RecordDecoder()


def one(data: bytes) -> None:
    """Take the bytes for a message, and for a record."""
    found = result_or_condition(walk, data)
    if isinstance(found, SectionOffsets):
        _lossless(data, found)
    key, value, headers = _cut(data)
    exact = from_record(key, value, headers)
    whole = exact.header + exact.rest
    layout = walk(whole)
    assert layout.da == layout.ma == len(exact.header)
    _fetched(key, value, headers)


def _lossless(data: bytes, layout: SectionOffsets) -> None:
    try:
        record = to_record(data, layout, tombstones=True)
    except AmqpError:
        return
    back = from_record(record.key, record.value, record.headers)
    if record.value is not None:
        assert back == (data[: layout.da], data[layout.ma :])
    _fetched(record.key, record.value, record.headers)


def _cut(data: bytes) -> tuple[bytes | None, bytes | None, list[Header]]:
    parts = _parts(data)
    key, value = next(parts, None), next(parts, None)
    names = (name.decode(errors="replace").replace("\0", "") for name in parts if name is not None)
    return key, value, [(name, next(parts, None)) for name in names]


def _parts(data: bytes) -> Iterator[bytes | None]:
    """A byte says how long the next part is; 255 that it is none."""
    place = 0
    while place < len(data):
        size = data[place]
        place += 1
        yield None if size == 255 else data[place : place + size]
        place += 0 if size == 255 else size


class _Kafka(NamedTuple):
    server: EmbeddedKafka
    producer: Producer
    runs: Consumer
    messages: Consumer


@functools.cache
def _kafka() -> _Kafka:
    server = EmbeddedKafka()
    server.create_topic(TOPIC, 1)
    where: dict[str, Any] = {"bootstrap.servers": server.bootstrap, "log_level": 0}
    more = {"enable.partition.eof": False, "fetch.wait.max.ms": 1}
    readers = [Consumer({**reader._SETTINGS, **where, **more}) for _ in range(2)]
    for each in readers:
        each.assign([TopicPartition(TOPIC, 0, 0)])
    return _Kafka(server, Producer({**where, "linger.ms": 0}), *readers)


def _fetched(key: bytes | None, value: bytes | None, headers: list[Header]) -> None:
    kafka = _kafka()
    kafka.producer.produce(TOPIC, value, key, headers=headers)
    assert kafka.producer.flush(60) == 0
    take = functools.partial(poll.poll_native, check=True, least=0)
    run, messages = _poll_one(take, kafka.runs), _poll_one(poll.poll_fallback, kafka.messages)
    assert ENCODER.events(run, 0) == ENCODER.events(messages, 0)
    rows, others = (DECODER.rows([PartitionRecords(0, records, 1)]) for records in (run, messages))
    assert rows.equals(others)


def _poll_one(take: poll.Poller, consumer: Consumer) -> Any:
    for _ in range(600):
        runs, failures = take(consumer, 1, 0.1)
        assert not failures, failures
        if runs:
            return next(iter(runs.values()))
    raise TimeoutError("the record does not come")
