"""The record that C makes of a message is that of the mapping in Python, or C leaves it to Python (decision 57)."""

from __future__ import annotations

from collections.abc import Iterator
from types import EllipsisType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from bridges.kafka.produce import _produce
from bridges.kafka.records import digest
from bridges.kafka.records.mapping import RecordWriter
from gateway.amqp.codec.codec import Symbol, encode
from gateway.amqp.message import sections
from tests.bench.shapes import shapes
from tests.property.bridges.kafka.records.test_record_forms import BODIES, WHOLE
from tests.support.amqp.strategies import AP_SECTIONS, MESSAGES, PROPERTIES_SECTIONS, TEXT, mutated
from tests.support.plugins.examples import examples

Made = tuple[bytes | None, bytes | None, list[Any]] | EllipsisType
NAMES = st.sampled_from(["event-streams-group-key", "x-opt-kafka-key", "x-opt-kafka-headers", "x-opt-k", "-key"])
KEYS = NAMES.map(Symbol) | NAMES
VALUES = TEXT | st.none() | st.binary(max_size=300) | st.integers(0, 9) | TEXT.map(lambda text: [[text, b"1"]])
ANNOTATIONS = st.dictionaries(KEYS, VALUES, max_size=4).map(
    lambda entries: sections.section(sections.MESSAGE_ANNOTATIONS, entries)
)
APPLICATION = st.dictionaries(
    st.sampled_from(["a", "", "ß", "content-type", "amqp.x", "a\0", "cloudEvents:id", "n" * 300]),
    st.none() | st.booleans() | TEXT | st.binary(max_size=300) | st.floats(),
    max_size=5,
).map(lambda entries: sections.section(sections.APPLICATION_PROPERTIES, entries))
TYPED = st.builds(Symbol, st.sampled_from(["text/plain", "application/cloudevents+json"])).map(
    lambda media: sections.section(sections.PROPERTIES, [None, b"u", None, None, None, None, media])
)
NOTHING = st.just(b"")
NULL = st.just(b"\x00\x53\x77\x40")
KEYED = st.tuples(
    ANNOTATIONS, NOTHING | TYPED | PROPERTIES_SECTIONS, NOTHING | APPLICATION | AP_SECTIONS, NULL | BODIES
).map(b"".join)
USUAL = MESSAGES | WHOLE | KEYED
ANY = USUAL | mutated(USUAL) | st.sampled_from(list(shapes.recorded().values())) | st.binary(max_size=8)
WAYS = [(tombstones, compacted) for tombstones in (False, True) for compacted in (False, True)]


def in_python(data: bytes, writer: RecordWriter) -> Made:
    """The record, without a target partition and a response address."""
    layout = sections.walk(data)
    assert layout.da == layout.ma
    return writer.record(data, layout)


@settings(max_examples=examples(2500), deadline=None)
@given(data=ANY, way=st.sampled_from(WAYS))
@example(data=b"", way=(False, False))
@example(data=b"\x00\x53\x75\xa0\x01x", way=(False, True))
def test_c_makes_the_record_that_python_makes(data: bytes, way: tuple[bool, bool]) -> None:
    writer = RecordWriter(tombstones=way[0], compacted=way[1])
    assert writer.rules is not None
    made = _produce.record_of(data, writer.rules)
    assert made is ... or made == in_python(data, writer)


@pytest.mark.parametrize("name", shapes.recorded())
def test_c_makes_the_records_of_what_clients_send(name: str) -> None:
    data, writer = shapes.recorded()[name], RecordWriter()
    assert writer.rules is not None
    assert _produce.record_of(data, writer.rules) == in_python(data, writer)


@settings(max_examples=examples(300), deadline=None)
@given(data=WHOLE)
def test_every_form_of_sections_is_made_in_c(data: bytes) -> None:
    assert _produce.record_of(data, 1) is not ...


DATA = b"\x00\x53\x75\xa0\x01x"


def app(entries: dict[Any, Any]) -> bytes:
    return sections.section(sections.APPLICATION_PROPERTIES, entries) + DATA


def annotated(entries: dict[Any, Any], code: int = sections.MESSAGE_ANNOTATIONS) -> bytes:
    return sections.section(code, entries) + DATA


LEFT = {
    "malformed": DATA[:-1],
    "delivery annotations": annotated({Symbol("x"): 1}, sections.DELIVERY_ANNOTATIONS),
    "a key of another type": annotated({Symbol("event-streams-group-key"): 1}),
    "a Kafka key of another type": annotated({Symbol("x-opt-kafka-key"): "text"}),
    "headers in an order": annotated({Symbol("x-opt-kafka-headers"): [["a", b"1"]]}),
    "a name that is reserved": app({"amqp.to": "x"}),
    "a name with NUL": app({"a\0b": "x"}),
    "a name of another type": b"\x00\x53\x74\xc1\x04\x02\x54\x01\x41" + DATA,
    "a name twice": b"\x00\x53\x74\xc1\x09\x04\xa1\x01a\x41\xa1\x01a\x42" + DATA,
    "a value without a short text": app({"a": 1.5}),
    "a CloudEvent": app({"cloudEvents:id": "1"}),
    "many headers": app({str(number): "x" for number in range(65)}),
    "much": app({str(number): "x" * 200 for number in range(30)}),
    "a long footer": DATA + sections.section(sections.FOOTER, {Symbol("x"): "y" * 9000}),
}


@pytest.mark.parametrize("data", LEFT.values(), ids=LEFT)
def test_c_leaves_to_python_what_needs_a_look(data: bytes) -> None:
    assert _produce.record_of(data, 1) is ...


def test_c_leaves_to_python_what_a_compacted_topic_refuses_and_tombstones() -> None:
    keyed = sections.section(sections.MESSAGE_ANNOTATIONS, {Symbol("event-streams-group-key"): "k"})
    null = keyed + sections.section(sections.AMQP_VALUE, None)
    assert _produce.record_of(DATA, 1 | 4) is _produce.record_of(null, 1 | 2) is ...
    assert _produce.record_of(null, 1)[1] == b"\x00\x53\x77\x40"  # type: ignore[index]
    assert _produce.record_of(keyed + DATA, 1 | 2 | 4)[:2] == (b"k", b"x")  # type: ignore[index]


@pytest.fixture
def unbound() -> Iterator[None]:
    _produce.bind_sha256(0, 0, 0)
    yield
    assert digest.ADDRESSES is not None
    _produce.bind_sha256(*digest.ADDRESSES)


def test_without_libcrypto_only_messages_that_are_nothing_but_data_are_records_in_c(unbound: None) -> None:
    assert _produce.record_of(DATA, 1) == (None, b"x", [])
    assert _produce.record_of(b"\x00\x53\x70\x45" + DATA, 1) is ...


def test_other_rules_take_only_messages_that_are_nothing_but_data() -> None:
    assert RecordWriter("amqp").rules is None
    assert RecordWriter(keys=("group-id", "group-key")).rules == 0
    assert _produce.record_of(b"\x00\x53\x70\x45" + DATA, 0) is ...
    assert _produce.record_of(DATA, 0) == (None, b"x", [])


def test_headers_are_in_the_order_of_the_message_and_have_the_texts_of_its_values() -> None:
    entries = b"\xa1\x01a\xa1\x01x" + b"\xa1\x01b\x55\xff"
    head = sections.section(sections.PROPERTIES, ["id", None, None, "s"])
    data = head + b"\x00\x53\x74\xc1" + bytes([1 + len(entries), 4]) + entries + encode_null()
    _, value, headers = _produce.record_of(data, 1)  # type: ignore[misc]
    found = [("a", b"x"), ("b", b"-1"), ("amqp.message-id", b"id"), ("amqp.subject", b"s"), ("amqp.body", b"sections")]
    assert headers[:-1] == found
    assert value == encode_null()
    assert headers[-1][0] == "amqp.bare"


def encode_null() -> bytes:
    return b"\x00\x53\x77" + encode(None)
