"""The delivery annotations of events (ES 4.6, 5.1; KM-1, KM-2)."""

from __future__ import annotations

import pytest

from bridges.kafka.records.mapping import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    AnnotationTemplate,
    RecordReader,
    RecordWriter,
)
from gateway.amqp.codec.codec import Symbol, Timestamp
from gateway.amqp.message import sections
from gateway.amqp.message.sections import DATA, DELIVERY_ANNOTATIONS, HEADER, MESSAGE_ANNOTATIONS, section, walk

BODY = section(DATA, b"body")
KEYED = section(MESSAGE_ANNOTATIONS, {Symbol("event-streams-group-key"): "key"})


@pytest.mark.row("ES-4.6.4-1")
@pytest.mark.parametrize("offset", [0, 12345, 2**63 - 1])
@pytest.mark.parametrize("partition", [0, 7, 12345])
@pytest.mark.parametrize(
    ("kind", "word"), [(NO_TIMESTAMP, "none"), (CREATE_TIME, "create"), (LOG_APPEND_TIME, "append")]
)
def test_the_annotations_of_an_event(offset, partition, kind, word):
    expected = {
        Symbol("event-streams-offset"): Symbol(f"{offset:020d}"),
        Symbol("event-streams-timestamp"): Timestamp(1_700_000_000_000),
        Symbol("event-streams-source-partition"): Symbol(partition),
        Symbol("x-opt-kafka-timestamp-type"): Symbol(word),
    }
    template = AnnotationTemplate(partition, kind)
    assert template.encode(offset, 1_700_000_000_000) == section(DELIVERY_ANNOTATIONS, expected)


def test_a_record_without_time_is_of_1970():
    data = AnnotationTemplate(0, CREATE_TIME).encode(1, -1)
    assert sections.delivery_annotations(data, walk(data))["event-streams-timestamp"] == 0


def test_offsets_sort_like_the_log():
    assert sorted([f"{n}" for n in (9, 10)]) != ["9", "10"]
    texts = [AnnotationTemplate(0, CREATE_TIME).encode(n, 0) for n in (0, 9, 10, 99, 10**18)]
    assert texts == sorted(texts)


def test_reader_and_writer_of_a_link():
    reader, writer = RecordReader(), RecordWriter()
    header = section(HEADER, [True])
    key, value, headers = writer.record(header + KEYED + BODY, walk(header + KEYED + BODY))
    for partition in (0, 1, 0):
        da = AnnotationTemplate(partition, CREATE_TIME).encode(5, 6)
        assert reader.encode(key, value, headers, partition, 5, CREATE_TIME, 6) == header + da + KEYED + BODY
