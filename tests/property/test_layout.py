"""The walk in large steps finds what the walk of every form finds, and refuses what that refuses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp import _sections, layout, properties
from gateway.errors import AmqpError
from gateway.scope import fields
from tests.support.strategies import (
    AP_SECTIONS,
    BODIES,
    DA_SECTIONS,
    FOOTER_SECTIONS,
    HEADER_SECTIONS,
    MA_SECTIONS,
    MESSAGES,
    PROPERTIES_SECTIONS,
    mutated,
    result_or_condition,
)

_PARTS = (HEADER_SECTIONS, DA_SECTIONS, MA_SECTIONS, PROPERTIES_SECTIONS, AP_SECTIONS, BODIES, FOOTER_SECTIONS)
_ANY_ORDER = st.lists(st.one_of(*_PARTS), max_size=9).map(b"".join)


@given(MESSAGES | mutated(MESSAGES) | _ANY_ORDER | mutated(_ANY_ORDER))
def test_both_walks_agree(data: bytes) -> None:
    assert result_or_condition(layout.walk, data) == result_or_condition(layout._walk, data)


@given(st.integers(1, 4000))
def test_many_sections_are_walked_in_proportion(count: int) -> None:
    data = b"\x00\x53\x75\xa0\x00" * count
    assert layout.walk(data) == layout.Layout(0, 0, 0, 0, 0, 0, 0, len(data), len(data))


@given(MESSAGES | mutated(MESSAGES) | mutated(PROPERTIES_SECTIONS), st.integers(0, 13))
def test_a_field_is_the_same_however_it_is_found(data: bytes, index: int) -> None:
    found = _placed(data)
    if found is not None:
        general = result_or_condition(properties._property_field, data, found, index)
        if found.properties == found.app:
            general = None
        assert result_or_condition(properties.property_field, data, found, index) == general


@given(MESSAGES | mutated(MESSAGES) | mutated(PROPERTIES_SECTIONS))
def test_the_leading_fields_are_the_same_however_they_are_found(data: bytes) -> None:
    found = _placed(data)
    if found is not None and found.properties < found.app:
        general = result_or_condition(fields._leading_fields, data, found)
        assert result_or_condition(fields.leading_fields, data, found) == general


@given(MESSAGES | mutated(MESSAGES) | mutated(PROPERTIES_SECTIONS), st.binary(max_size=300))
def test_annotations_are_put_on_as_python_would(data: bytes, section: bytes) -> None:
    expected = result_or_condition(_put_on, data, section)
    for reply_to in _reply_tos(data):
        assert _sections.put_on(data, {reply_to: section}) in (..., expected)
    assert _sections.put_on(data, {}) is ...


def _put_on(data: bytes, section: bytes) -> bytes | None:
    found = layout.walk(data)
    properties.property_field(data, found, fields.REPLY_TO)  # or its error
    return None if found.da != found.ma else data[: found.da] + section + data[found.da :]


def _reply_tos(data: bytes) -> set[bytes]:
    """All that could be taken for its reply-to: the only one that counts is there if there is one."""
    found = _placed(data)
    try:
        own = None if found is None else properties.property_field(data, found, fields.REPLY_TO)
    except AmqpError:
        own = None
    return {fields.NULL, own or fields.NULL}


@given(MESSAGES | mutated(MESSAGES) | mutated(PROPERTIES_SECTIONS), st.binary(max_size=3))
def test_annotations_are_taken_off_as_python_would(data: bytes, mark: bytes) -> None:
    found = _placed(data)
    known = {data[found.da : found.ma]: "it"} if found is not None else {}
    assert _sections.take_off(data, known, mark) in (..., result_or_condition(_taken_off, data, mark))
    assert _sections.take_off(data, {}, mark) is ...


def _taken_off(data: bytes, mark: bytes) -> tuple[str, bytes, bool]:
    found = layout.walk(data)
    onward = data.find(mark, found.properties, found.app) >= 0
    onward = onward or properties.property_field(data, found, fields.REPLY_TO) is not None
    return "it", data[: found.da] + data[found.ma :], onward


def _placed(data: bytes) -> layout.Layout | None:
    try:
        return layout.walk(data)
    except AmqpError:
        return None
