"""Sections by example: forms of descriptors, order, single fields, edits (AMQP 1.0 part 3, 3.2)."""

from __future__ import annotations

import uuid

import pytest

from gateway.amqp.codec.codec import Symbol, Timestamp, Ubyte, Ulong, encode, encode_map
from gateway.amqp.message import sections
from gateway.amqp.message.sections import (
    AMQP_SEQUENCE,
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    DATA,
    DELIVERY_ANNOTATIONS,
    FOOTER,
    HEADER,
    MESSAGE_ANNOTATIONS,
    PROPERTIES,
    section,
    walk,
)
from gateway.errors import DECODE_ERROR, INVALID_FIELD, AmqpError

BODY = section(DATA, b"body")
EVERYTHING = {
    HEADER: [True, Ubyte(4)],
    DELIVERY_ANNOTATIONS: {Symbol("a"): 1},
    MESSAGE_ANNOTATIONS: {Symbol("b"): 2},
    PROPERTIES: [Ulong(7), b"user", "to/x", None, "reply", uuid.UUID(int=1), Symbol("text/plain")],
    APPLICATION_PROPERTIES: {"c": 3},
    DATA: b"body",
    FOOTER: {Symbol("d"): 4},
}
SYMBOLS = {
    HEADER: "amqp:header:list",
    DELIVERY_ANNOTATIONS: "amqp:delivery-annotations:map",
    MESSAGE_ANNOTATIONS: "amqp:message-annotations:map",
    PROPERTIES: "amqp:properties:list",
    APPLICATION_PROPERTIES: "amqp:application-properties:map",
    DATA: "amqp:data:binary",
    FOOTER: "amqp:footer:map",
}


def _short(code):
    return b"\x53" + bytes((code,))


def _full(code):
    return b"\x80" + code.to_bytes(8, "big")


def _symbolic(code):
    return encode(Symbol(SYMBOLS[code]))


def _long_symbolic(code):
    return b"\xb3" + len(SYMBOLS[code]).to_bytes(4, "big") + SYMBOLS[code].encode()


@pytest.mark.parametrize("descriptor", [_short, _full, _symbolic, _long_symbolic])
def test_every_section_is_read_in_every_form_of_descriptor(descriptor):
    data = b"".join(b"\x00" + descriptor(code) + encode(value) for code, value in EVERYTHING.items())
    layout = walk(data)
    assert sections.header(data, layout) == EVERYTHING[HEADER]
    assert sections.delivery_annotations(data, layout) == EVERYTHING[DELIVERY_ANNOTATIONS]
    assert sections.message_annotations(data, layout) == EVERYTHING[MESSAGE_ANNOTATIONS]
    assert sections.application_properties(data, layout) == EVERYTHING[APPLICATION_PROPERTIES]
    assert sections.body_kind(data, layout) == DATA
    assert sections.body_values(data, layout) == [b"body"]
    assert sections.footer(data, layout) == EVERYTHING[FOOTER]
    view = sections.properties(data, layout)
    assert (view.message_id, view.user_id, view.to, view.subject) == (7, b"user", "to/x", None)
    assert (view.reply_to, view.correlation_id) == ("reply", uuid.UUID(int=1))
    assert (view.content_type, view.group_id) == ("text/plain", None)


def test_an_empty_message_and_one_without_body_pass():
    assert set(walk(b"")) == {0}
    assert sections.body_kind(b"", walk(b"")) == 0
    assert walk(section(HEADER, [])).bare == 4


@pytest.mark.parametrize(
    "codes",
    [
        [MESSAGE_ANNOTATIONS, DELIVERY_ANNOTATIONS],
        [HEADER, HEADER],
        [DELIVERY_ANNOTATIONS, DELIVERY_ANNOTATIONS],
        [DATA, PROPERTIES],
        [FOOTER, FOOTER],
        [FOOTER, DATA],
        [DATA, FOOTER, DATA],
    ],
)
def test_sections_out_of_order_or_twice_are_refused(codes):
    with pytest.raises(AmqpError, match="out of order"):
        walk(b"".join(section(code, EVERYTHING[code]) for code in codes))


@pytest.mark.parametrize(
    "data",
    [
        section(AMQP_VALUE, 1) * 2,
        section(DATA, b"") + section(AMQP_VALUE, 1),
        section(DATA, b"") + section(AMQP_SEQUENCE, []),
        section(AMQP_SEQUENCE, []) + section(DATA, b""),
    ],
)
def test_bodies_do_not_mix(data):
    with pytest.raises(AmqpError, match="out of order"):
        walk(data)


@pytest.mark.parametrize("data", [BODY * 3, section(AMQP_SEQUENCE, [1]) * 2])
def test_several_data_or_sequence_sections_pass(data):
    assert walk(data).footer == len(data)


HOSTILE = {
    "no descriptor": b"\x40",
    "lone zero": b"\x00",
    "unknown section": b"\x00\x53\x79\x45",
    "unknown symbol": b"\x00\xa3\x01a\x45",
    "huge ulong": b"\x00\x80" + b"\xff" * 8 + b"\x45",
    "string descriptor": b"\x00" + encode("amqp:header:list") + b"\x45",
    "header is a map": b"\x00\x53\x70\xc1\x01\x00",
    "annotations are a list": b"\x00\x53\x71\x45",
    "data is a string": b"\x00\x53\x75\xa1\x00",
    "section without value": b"\x00\x53\x75",
    "data cut off": b"\x00\x53\x75\xa0\x05abc",
    "data32 cut off": b"\x00\x53\x75\xb0\x00\x00\x00\xff",
    "value cut off": b"\x00\x53\x77\xa1\x05",
    "http": b"GET / HTTP/1.1\r\n\r\n",
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_message_is_refused(data):
    with pytest.raises(AmqpError) as caught:
        walk(data)
    assert caught.value.condition == DECODE_ERROR


def test_property_field_gives_the_bytes_of_one_field():
    data = section(PROPERTIES, EVERYTHING[PROPERTIES]) + BODY
    layout = walk(data)
    assert sections.property_field(data, layout, 0) == encode(Ulong(7))
    assert sections.property_field(data, layout, 3) is None
    assert sections.property_field(data, layout, 6) == encode(Symbol("text/plain"))
    assert sections.property_field(data, layout, 7) is None
    assert sections.property_field(BODY, walk(BODY), 0) is None


@pytest.mark.parametrize(
    ("name", "fields"),
    [("to", [None, None, 5]), ("message_id", [True]), ("content_type", [None] * 6 + ["a string"])],
)
def test_a_property_of_a_wrong_type_is_named(name, fields):
    data = section(PROPERTIES, fields) + BODY
    with pytest.raises(AmqpError) as caught:
        getattr(sections.properties(data, walk(data)), name)
    assert caught.value.condition == INVALID_FIELD
    assert caught.value.info == {"field": name.replace("_", "-")}


def test_too_many_properties_are_refused():
    data = section(PROPERTIES, [None] * 14)
    with pytest.raises(AmqpError, match="13 fields"):
        sections.properties(data, walk(data))


def test_replacing_properties_inserts_the_section_and_pads_it():
    header = section(HEADER, [True])
    data = header + BODY
    changed = sections.replace_properties(data, walk(data), {4: encode("back")})
    assert changed == header + section(PROPERTIES, [None] * 4 + ["back"]) + BODY


@pytest.mark.row("CORE-5")
def test_splice_replaces_inserts_and_removes():
    header, bare = section(HEADER, [True]), section(PROPERTIES, ["id"]) + BODY
    da, ma = section(DELIVERY_ANNOTATIONS, {Symbol("x"): 1}), section(MESSAGE_ANNOTATIONS, {Symbol("y"): 1})
    plain = header + bare
    annotated = sections.splice(plain, walk(plain), da=da, ma=ma)
    assert annotated == header + da + ma + bare
    assert sections.splice(annotated, walk(annotated), da=None) == header + ma + bare
    assert sections.splice(annotated, walk(annotated), ma=None) == header + da + bare
    assert sections.splice(annotated, walk(annotated), da=None, ma=None) == plain


def test_edit_map_keeps_the_bytes_of_other_entries():
    odd = b"\xb3\x00\x00\x00\x01k", b"\x80" + bytes(8)  # legal, though not the shortest
    annotations = b"\x00\x53\x71" + encode_map(
        [odd, (encode(Symbol("gone")), encode(1)), (encode(Ulong(1)), b"\x41")]
    )
    edited = sections.edit_map(annotations, put={"new": encode(2)}, drop=["gone"])
    assert edited == b"\x00\x53\x71" + encode_map(
        [odd, (encode(Ulong(1)), b"\x41"), (encode(Symbol("new")), encode(2))]
    )


def test_edit_map_replaces_a_key_hidden_behind_another_form_or_type():
    entries = [
        (encode("k"), encode(1)),
        (b"\xb3\x00\x00\x00\x01k", encode(2)),
        (encode(Symbol("k")), encode(3)),
    ]
    annotations = b"\x00\x53\x71" + encode_map(entries)
    assert sections.edit_map(annotations, drop=["k"]) is None
    assert sections.edit_map(annotations, put={"k": encode(4)}) == section(
        DELIVERY_ANNOTATIONS, {Symbol("k"): 4}
    )


def test_edit_map_makes_a_section_of_nothing():
    put = {"k": encode(Timestamp(1))}
    assert sections.edit_map(b"") is None
    assert sections.edit_map(b"", put=put) == section(DELIVERY_ANNOTATIONS, {Symbol("k"): Timestamp(1)})
    made = sections.edit_map(b"", put=put, code=MESSAGE_ANNOTATIONS)
    assert made == sections.annotations_section(MESSAGE_ANNOTATIONS, put)


def test_map_entry_is_not_fooled_by_a_value_that_looks_like_the_key():
    annotations = section(MESSAGE_ANNOTATIONS, {Symbol("a"): "k", Symbol("k"): 5})
    assert sections.map_entry(annotations, "k") == encode(5)
    assert sections.map_entry(annotations, "z") is None
    assert sections.map_entry(section(MESSAGE_ANNOTATIONS, {Symbol("a"): "k"}), "k") is None
    assert sections.map_entry(b"", "k") is None
