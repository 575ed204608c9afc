"""The walk in large steps finds what the walk of every form finds, and refuses what that refuses."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp import layout
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
