"""The section walker and the splices on any message and on any bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.codec.codec import Symbol, encode
from gateway.amqp.message import sections
from gateway.errors import DECODE_ERROR, INVALID_FIELD
from tests.support.amqp.strategies import (
    ANNOTATIONS,
    DA_SECTIONS,
    MA_SECTIONS,
    MESSAGE_IDS,
    MESSAGE_PARTS,
    MESSAGES,
    SCALARS,
    mutated,
    result_or_condition,
    same,
)

ANNOTATION_NAMES = st.sampled_from(["x-opt-a", "x-opt-b", "address-cookie"])


@given(MESSAGE_PARTS)
def test_walk_finds_every_section(parts):
    header, da, ma, bare = parts
    data = b"".join(parts)
    layout = sections.walk(data)
    assert data[: layout.da] == header
    assert data[layout.da : layout.ma] == da
    assert data[layout.ma : layout.bare] == ma
    assert data[layout.bare :] == bare
    assert layout.header == 0
    assert (
        layout.properties
        == layout.bare
        <= layout.app
        <= layout.body
        <= layout.footer
        <= layout.end
        == len(data)
    )


@pytest.mark.row("CORE-5")
@given(MESSAGE_PARTS, DA_SECTIONS | st.none(), MA_SECTIONS | st.none())
def test_splice_copies_the_bare_message_untouched(parts, new_da, new_ma):
    header, da, ma, bare = parts
    data = b"".join(parts)
    layout = sections.walk(data)
    assert sections.splice(data, layout, da=new_da) == header + (new_da or b"") + ma + bare
    assert sections.splice(data, layout, ma=new_ma) == header + da + (new_ma or b"") + bare
    assert (
        sections.splice(data, layout, da=new_da, ma=new_ma)
        == header + (new_da or b"") + (new_ma or b"") + bare
    )
    assert sections.splice(data, layout) == data


@given(DA_SECTIONS | MA_SECTIONS, st.dictionaries(ANNOTATION_NAMES, SCALARS), st.sets(ANNOTATION_NAMES))
def test_edit_map_puts_and_drops_what_it_is_told(annotations, put, drop):
    edited = sections.edit_map(annotations, put={key: encode(value) for key, value in put.items()}, drop=drop)
    expected = {**_decoded(annotations), **{Symbol(key): value for key, value in put.items()}}
    for key in drop - put.keys():
        expected.pop(key, None)
    found = _decoded(edited) if edited else {}
    assert found.keys() == expected.keys()
    assert all(same(found[key], expected[key]) for key in found)
    assert all(sections.map_entry(edited, key) == encode(value) for key, value in put.items())


def _decoded(annotations):
    layout = sections.walk(annotations)
    return {
        **sections.delivery_annotations(annotations, layout),
        **sections.message_annotations(annotations, layout),
    }


@given(ANNOTATIONS)
def test_putting_an_entry_and_dropping_it_changes_nothing(entries):
    before = sections.section(sections.DELIVERY_ANNOTATIONS, entries)
    put = sections.edit_map(before, put={"address-cookie\x7f": b"\x40"})
    assert put is not None
    assert sections.edit_map(put, drop=["address-cookie\x7f"]) == (before if entries else None)


@given(MESSAGES, st.dictionaries(st.sampled_from([0, 4, 5]), MESSAGE_IDS))
def test_replacing_properties_keeps_all_other_bytes(data, fields):
    before = sections.walk(data)
    changed = sections.replace_properties(data, before, {i: encode(value) for i, value in fields.items()})
    after = sections.walk(changed)
    assert changed[: after.properties] == data[: before.properties]
    assert changed[after.app :] == data[before.app :]
    for index in range(13):
        expected = sections.property_field(data, before, index)
        if index in fields:
            expected = None if fields[index] is None else encode(fields[index])
        assert sections.property_field(changed, after, index) == expected


def _read_everything(data):
    layout = sections.walk(data)
    view = sections.properties(data, layout)
    for name in (
        "message_id",
        "user_id",
        "to",
        "reply_to",
        "correlation_id",
        "content_type",
        "group_sequence",
    ):
        getattr(view, name)
    sections.header(data, layout)
    sections.delivery_annotations(data, layout)
    sections.message_annotations(data, layout)
    sections.application_properties(data, layout)
    sections.body_values(data, layout)
    sections.footer(data, layout)
    return "read"


def _edit_everything(data):
    layout = sections.walk(data)
    for index in range(14):
        sections.property_field(data, layout, index)
    sections.map_entry(data[layout.ma : layout.bare], "x-opt-a")
    ma = sections.edit_map(data[layout.ma : layout.bare], put={"x-opt-a": b"\x40"}, drop=["x"])
    da = sections.edit_map(data[layout.da : layout.ma], drop=["x"])
    edited = sections.splice(data, layout, da=da, ma=ma)
    assert edited[-len(data[layout.bare :]) :] == data[layout.bare :] or layout.bare == layout.end
    sections.replace_properties(data, layout, {4: b"\x40"})
    return "edited"


@given(st.binary(max_size=100) | mutated(MESSAGES))
def test_any_bytes_are_read_or_refused(data):
    assert result_or_condition(_read_everything, data) in {"read", DECODE_ERROR, INVALID_FIELD}


@given(st.binary(max_size=100) | mutated(MESSAGES))
def test_any_bytes_are_edited_or_refused(data):
    assert result_or_condition(_edit_everything, data) in {"edited", DECODE_ERROR}
