"""Filters on records that the gateway did not write, or that a tool changed after it had (FX 2-5, KM-13)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from bridges.kafka.records.mapping import RecordWriter
from gateway.amqp.codec.codec import Int, Symbol
from gateway.amqp.message.sections import walk
from gateway.filters.position.event_stream import offset_symbol
from tests.support.amqp.messages import message, section, sections
from tests.support.filters.corpus import RED, app, props, sql
from tests.support.filters.streams import Answer, StreamPlace, answers, begin
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.kafka.records import copies
from tests.support.servers.kafka import KafkaBroker, new_producer

OFFSET = "d.event-streams-offset"


def at(number: int) -> str:
    return f"'{offset_symbol(number)}'"


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, kafka_broker: KafkaBroker) -> StreamPlace:
    return begin(start_module_gateway, kafka_broker)


class Kafka:
    """An ordinary producer on a topic."""

    def __init__(self, place: StreamPlace) -> None:
        self.topic = place.broker.create_topic()
        self._producer = new_producer(place.broker.bootstrap)
        self._numbers = itertools.count()

    def put(self, value: bytes | None, headers: Any = None, key: bytes | None = None) -> int:
        """Write a record, return its offset."""
        self._producer.produce(self.topic, value, headers=headers, key=key)
        assert self._producer.flush(PATIENCE) == 0
        return next(self._numbers)


@pytest.fixture
def kafka(place: StreamPlace) -> Kafka:
    return Kafka(place)


def offsets(answer: Answer) -> list[int]:
    return [int(sections(payload)["delivery_annotations"]["event-streams-offset"]) for payload in answer.payloads]


@pytest.mark.row("FX-2-5", "FX-4.3-1")
def test_records_of_others_match_as_the_messages_they_become(place: StreamPlace, kafka: Kafka) -> None:
    plain = kafka.put(b"x", [("color", b"red"), ("size", b"5")], key=b"k")
    kafka.put(b"x", [("color", b"blue")])
    twice = kafka.put(b"x", [("color", b"blue"), ("color", b"red")])
    binary = kafka.put(b"x", [("color", b"\xff\xfe")], key=b"\xff")
    empty = kafka.put(None, [("color", None)], key=b"k")
    nothing = kafka.put(b"", None)
    required = [("ce_specversion", b"1.0"), ("ce_type", b"sold"), ("ce_id", b"1"), ("ce_source", b"/")]
    event = kafka.put(b"{}", [*required, ("color", b"red")])
    for given, found in [
        (RED, [plain, twice, event]),
        (sql("color IN ('red', 'green') AND NOT EXISTS(a.size)"), [twice, event]),
        (sql("a.size = '5' AND a.size > 4"), []),
        (sql("EXISTS(a.color) AND a.color IS NULL"), [empty]),
        (sql("NOT EXISTS(a.color)"), [nothing]),
        (app(color=b"\xff\xfe"), [binary]),
        (props("message-annotations", {Symbol("event-streams-group-key"): "k"}), [plain, empty]),
        (sql("m.[x-opt-kafka-tombstone]"), [empty]),
        (app(**{"cloudEvents:type": "sold"}), [event]),
        (sql("a.[cloudEvents:type] LIKE 's%' AND a.ce_type IS NULL"), [event]),
        (sql("a.[cloudEvents:id] = '1' OR color = 'blue'"), [1, event]),
        (sql(f"{OFFSET} >= {at(twice)} AND {OFFSET} < {at(event)} AND EXISTS(color)"), [twice, binary, empty]),
    ]:
        (answer,) = answers(place.port, f"events/{kafka.topic}", given)
        assert offsets(answer) == found, given


NO_ENVELOPES = (
    None, b"", b"1", b"\x01", b"\x02" + b"x" * 16, b"\x01" + b"x" * 17, b"\x03" + bytes(40), b"\x7f" + b"x" * 40,
    b"\x02" + b"x" * 40, b"\x01" + bytes(17) + message(b"a body"),
)  # fmt: skip


@pytest.mark.row("FX-2-5")
def test_a_record_whose_amqp_bare_cannot_be_read_is_one_of_others(place: StreamPlace, kafka: Kafka) -> None:
    keyed = [kafka.put(b"x", [("amqp.bare", each)], key=b"k") for each in NO_ENVELOPES]
    colored = [kafka.put(b"x", [("color", b"red"), ("amqp.bare", each)]) for each in NO_ENVELOPES]
    whole = kafka.put(message(app={"color": "red"}), [("amqp.body", b"message"), ("amqp.bare", b"1")], key=b"k")
    for given, found in [
        (sql("EXISTS(m.[x-opt-kafka-key])"), keyed),
        (sql("NOT EXISTS(m.[x-opt-kafka-key])"), [*colored, whole]),
        (props("message-annotations", {Symbol("event-streams-group-key"): "k"}), keyed),
        (sql("NOT EXISTS(m.[x-opt-kafka-key]) AND color LIKE 'r%' AND p.subject IS NULL"), [*colored, whole]),
        (RED, [*colored, whole]),
    ]:
        for answer in answers(place.port, f"events/{kafka.topic}", given, given):
            assert offsets(answer) == found, given


@pytest.mark.row("FX-2-5")
def test_a_tombstone_of_ours_has_its_annotation_for_filters_too(place: StreamPlace, kafka: Kafka) -> None:
    """As in the message: the annotation is not among what the record stores."""
    null = message(None, ma={"event-streams-group-key": "k"}) + section(0x77, None)
    (key, deleted, headers), (_, kept, others) = (
        RecordWriter(tombstones=each).record(null, walk(null)) for each in (True, False)
    )
    assert deleted is None
    assert kept
    kafka.put(deleted, headers, key)
    kafka.put(kept, others, key)
    found = answers(
        place.port,
        f"events/{kafka.topic}",
        *map(sql, ("m.[x-opt-kafka-tombstone]", "NOT EXISTS(m.[x-opt-kafka-tombstone])")),
    )
    assert [offsets(each) for each in found] == [[0], [1]]


@pytest.mark.row("FX-2-5")
def test_a_record_that_was_changed_counts_as_it_is_delivered(place: StreamPlace, kafka: Kafka) -> None:
    """Headers changed in place, taken away, put behind: filters follow what consumers see."""
    red, blue = (message(b"x", app={"color": color, "n": Int(1)}, subject=color) for color in ("red", "blue"))
    topic = place.topic(red, blue)
    ours = copies(place.broker, topic, 2)
    same = kafka.put(ours[0].value(), ours[0].headers())
    recolored = kafka.put(ours[1].value(), [(n, b"red" if n == "color" else v) for n, v in ours[1].headers()])
    behind = kafka.put(ours[1].value(), [*ours[1].headers(), ("color", b"red")])
    masked = kafka.put(b"***", ours[0].headers())
    stripped = kafka.put(ours[0].value(), [(n, v) for n, v in ours[0].headers() if n != "color"])
    both, typed, subject = answers(
        place.port, f"events/{kafka.topic}", RED, sql("a.n = 1"), props("properties", {"subject": "red"})
    )
    assert offsets(both) == [same, recolored, behind, masked]
    assert offsets(typed) == [same], "only what the digest vouches for has its types"
    assert offsets(subject) == [same]
    assert stripped == 4
