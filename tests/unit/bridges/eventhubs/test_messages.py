"""Batches, partition keys, and the annotations of events."""

from __future__ import annotations

import pytest
from azure.eventhub._buffered_producer._partition_resolver import generate_hash_code
from hypothesis import given
from hypothesis import strategies as st

from bridges.eventhubs.messages import LastEvent, event, grouped
from bridges.eventhubs.partition_hash import partition_of
from bridges.eventhubs.unpacking import unpack
from gateway.amqp.codec.codec import Long, Symbol, Timestamp, encode
from gateway.amqp.message import sections
from gateway.errors import DECODE_ERROR, INVALID_FIELD, AmqpError

INVALID = {
    "005377c103015001": "a map with an odd count",
    "005377d000000005000000ff40": "255 items in five bytes",
    "005377e0050299010203": "an array of an unknown constructor",
    "005377a102fffe": "text that is not UTF-8",
    "005376c0030250015002": "a sequence that is cut off",
    "005374c1070101a1016b5601": "application properties with a value too many",
    "005373c005025101a1ff": "a property that is cut off",
    "005372c10602a3016b5602005375a000": "an annotation whose boolean is 2",
    "005375a000005378c1070201a1016b5001": "a footer that its items do not fill",
}


def deep(levels: int) -> bytes:
    """Lists in lists."""
    value = b"\x45"
    for _ in range(levels):
        value = b"\xd0" + (len(value) + 4).to_bytes(4, "big") + b"\x00\x00\x00\x01" + value
    return value


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
    assert list(unpack(batch(one, two))) == [one, two]


@pytest.mark.row("EH-10")
def test_the_key_of_a_batch_is_that_of_its_events() -> None:
    events = list(unpack(batch(message(b"one"), message(b"two", color="red"), key="k")))
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
        *(batch(message(), bytes.fromhex(odd)) for odd in INVALID),
        batch(message(), b"\x00\x53\x77" + deep(33)),
    ],
)
def test_a_broken_batch_is_refused(data: bytes) -> None:
    with pytest.raises(AmqpError) as caught:
        list(unpack(data))
    assert caught.value.condition == DECODE_ERROR


@pytest.mark.row("EH-9")
def test_every_form_of_body_is_an_event() -> None:
    value, sequence = (b"\x00\x53" + code + deep(20) for code in (b"\x77", b"\x76"))
    bare = sections.section(sections.PROPERTIES, ["id"])
    symbolic = b"\x00\xa3\x10amqp:data:binary\xa0\x01x"
    footed = message() + sections.section(sections.FOOTER, {Symbol("hash"): b"1"})
    events = [value, sequence, bare, symbolic, footed, message(b"y" * 300)]
    assert list(unpack(batch(*events))) == events


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
    assert list(unpack(packed)) == [message(b""), ends_so]


@pytest.mark.row("EH-10")
@given(st.text(st.characters(max_codepoint=127), max_size=40), st.integers(1, 40))
def test_the_hash_is_that_of_the_client(key: str, partitions: int) -> None:
    assert partition_of(key, partitions) == abs(generate_hash_code(key)) % partitions
