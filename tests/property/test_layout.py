"""The walk in large steps finds what the walk of every form finds, and refuses what that refuses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp import layout, properties
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


def _placed(data: bytes) -> layout.Layout | None:
    try:
        return layout.walk(data)
    except AmqpError:
        return None
