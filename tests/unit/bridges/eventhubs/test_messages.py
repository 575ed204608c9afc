"""Batches, partition keys, and the annotations of events."""

from __future__ import annotations

import pytest
from azure.eventhub._buffered_producer._partition_resolver import generate_hash_code
from hypothesis import given
from hypothesis import strategies as st

from bridges.eventhubs.messages import LastEvent, event, grouped, unpack
from bridges.eventhubs.partition_hash import partition_of
from gateway.amqp.codec.codec import Long, Symbol, Timestamp, encode
from gateway.amqp.message import sections
from gateway.errors import DECODE_ERROR, INVALID_FIELD, AmqpError


def message(body: bytes = b"x", key: object = None, **annotations: object) -> bytes:
    if key is not None:
        annotations["x-opt-partition-key"] = key
    encoded = {name: encode(value) for name, value in annotations.items()}
    front = sections.annotations_section(sections.MESSAGE_ANNOTATIONS, encoded) if encoded else b""
    return front + sections.section(sections.DATA, body)


def batch(*events: bytes, key: str | None = None) -> bytes:
    entries = {} if key is None else {"x-opt-partition-key": encode(key)}
    front = sections.annotations_section(sections.MESSAGE_ANNOTATIONS, entries) if entries else b""
    return front + b"".join(sections.section(sections.DATA, each) for each in events)


def annotations(data: bytes) -> dict[str, object]:
    return {str(key): value for key, value in sections.message_annotations(data, sections.walk(data)).items()}


def instructions(data: bytes) -> dict[str, object]:
    return {str(key): value for key, value in sections.delivery_annotations(data, sections.walk(data)).items()}


@pytest.mark.row("EH-9")
def test_a_batch_is_its_messages() -> None:
    one, two = message(b"one"), message(b"two", color="red")
    assert unpack(batch(one, two)) == [one, two]


@pytest.mark.row("EH-10")
def test_the_key_of_a_batch_is_that_of_its_events() -> None:
    events = unpack(batch(message(b"one"), message(b"two", color="red"), key="k"))
    assert [annotations(each).get("x-opt-partition-key") for each in events] == ["k", "k"]
    assert annotations(events[1])["color"] == "red"


@pytest.mark.row("EH-9")
@pytest.mark.parametrize(
    "data",
    [
        sections.section(sections.AMQP_VALUE, "no batch"),
        batch(b"no message"),
        batch(message(), b""),
        batch(message(), message()[:-1]),
        b"",
    ],
)
def test_a_broken_batch_is_refused(data: bytes) -> None:
    with pytest.raises(AmqpError) as caught:
        unpack(data)
    assert caught.value.condition == DECODE_ERROR


@pytest.mark.row("EH-10")
def test_a_partition_key_is_the_group_key() -> None:
    data = grouped(message(key="k", color="red"), None)
    assert annotations(data) == {"event-streams-group-key": "k", "color": "red"}
    assert instructions(data) == {}
    assert grouped(message(b"x-opt-partition-key"), None) == message(b"x-opt-partition-key")


@pytest.mark.row("EH-10")
def test_the_partition_of_the_service_is_named() -> None:
    data = grouped(message(key="k"), lambda key: partition_of(key, 7))
    assert instructions(data) == {"event-streams-target-partition": str(partition_of("k", 7))}


@pytest.mark.parametrize("key", ["", "k" * 129, 7, b"k"])
def test_other_keys_are_refused(key: object) -> None:
    with pytest.raises(AmqpError) as caught:
        grouped(message(key=key), None)
    assert caught.value.condition == INVALID_FIELD


def of_log(**more: object) -> bytes:
    marks = {
        "event-streams-offset": encode(Symbol("0" * 18 + "42")),
        "event-streams-timestamp": encode(Timestamp(1795402163658)),
        "event-streams-source-partition": encode(Symbol("1")),
        "x-opt-kafka-timestamp-type": encode(Symbol("create")),
    }
    return sections.annotations_section(sections.DELIVERY_ANNOTATIONS, marks) + message(**more)


@pytest.mark.row("EH-8")
def test_an_event_has_the_annotations_of_event_hubs() -> None:
    plain = event(of_log())
    assert annotations(plain) == {
        "x-opt-sequence-number": Long(42),
        "x-opt-offset": "42",
        "x-opt-enqueued-time": Timestamp(1795402163658),
    }
    assert instructions(plain) == {}
    assert annotations(event(of_log(**{"event-streams-group-key": "k"})))["x-opt-partition-key"] == "k"
    assert event(message()) == message()


@pytest.mark.row("EH-8")
def test_a_receiver_that_tracks_the_end_learns_it() -> None:
    reported = instructions(event(of_log(), LastEvent(50, 7, 8)))
    assert reported["last_enqueued_sequence_number"] == 50
    assert reported["last_enqueued_offset"] == "50"
    assert reported["last_enqueued_time_utc"] == Timestamp(7)
    itself = instructions(event(of_log(), LastEvent(3, 7, 8)))
    assert itself["last_enqueued_sequence_number"] == 42
    assert itself["last_enqueued_time_utc"] == Timestamp(1795402163658), "the event's own"


@pytest.mark.row("EH-9")
def test_a_body_of_null_is_an_empty_one() -> None:
    """The client for JavaScript sends it as a data section, whose value must be a binary."""
    null, ends_so = b"\x00\x53\x75\x40", message(b"\x00\x53\x75\x40")
    packed = b"".join(b"\x00\x53\x75" + encode(each) for each in (null, ends_so))
    assert unpack(packed) == [message(b""), ends_so]


@pytest.mark.row("EH-10")
@given(st.text(st.characters(max_codepoint=127), max_size=40), st.integers(1, 40))
def test_the_hash_is_that_of_the_client(key: str, partitions: int) -> None:
    assert partition_of(key, partitions) == abs(generate_hash_code(key)) % partitions
