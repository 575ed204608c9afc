"""The position filter of event streams (ES 5.1.1, 5.2.1)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.amqp.codec.types import Described, Symbol, Timestamp, Ulong
from gateway.errors import INVALID_FIELD, AmqpError
from gateway.filters.parse.filter_set import read as parse
from gateway.filters.position.event_stream import (
    FILTER_CODE,
    FILTER_NAME,
    NEVER,
    OFFSET,
    TIMESTAMP,
    LogPosition,
    Start,
    first_after,
    offset_symbol,
)

OFFSETS = st.integers(0, NEVER - 1)


def position_filter(**entries: object) -> dict[Symbol, Described]:
    content = {Symbol(key.replace("_", "-")): value for key, value in entries.items()}
    return {Symbol("start"): Described(Symbol(FILTER_NAME), content)}


@given(OFFSETS, OFFSETS)
def test_symbols_sort_like_offsets(a: int, b: int) -> None:
    assert (offset_symbol(a).encode() < offset_symbol(b).encode()) == (a < b)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=25) | OFFSETS.map(offset_symbol), OFFSETS)
def test_a_literal_splits_the_log_where_bytes_say(literal: str, offset: int) -> None:
    assert (offset >= first_after(literal)) == (offset_symbol(offset).encode() > literal.encode())


@pytest.mark.parametrize(
    ("literal", "first"),
    [
        (offset_symbol(4), 5),
        ("zzz", NEVER),
        ("a", NEVER),
        ("", 0),
        ("0" * 20 + "x", 1),
        (offset_symbol(NEVER - 1), NEVER),
    ],
)
def test_first_after(literal: str, first: int) -> None:
    assert first_after(literal) == first


def test_no_filter_means_latest() -> None:
    assert parse({}).position == LogPosition(Start.LATEST)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ({}, LogPosition(Start.EARLIEST)),
        ({"event_streams_offset": Symbol("@earliest")}, LogPosition(Start.EARLIEST)),
        ({"event_streams_offset": Symbol("@latest")}, LogPosition(Start.LATEST)),
        ({"event_streams_offset": offset_symbol(4)}, LogPosition(Start.EARLIEST, 5)),
        ({"event_streams_timestamp": Timestamp(7)}, LogPosition(Start.EARLIEST, 0, 7)),
        ({"event_streams_timestamp": 7}, LogPosition(Start.EARLIEST, 0, 7)),
        (
            {"event_streams_offset": Symbol(offset_symbol(4)), "event_streams_timestamp": Timestamp(9)},
            LogPosition(Start.EARLIEST, 5, 9),
        ),
    ],
)
def test_content(entries: dict[str, object], expected: LogPosition) -> None:
    assert parse(position_filter(**entries)).position == expected


def test_both_descriptor_forms_are_echoed_as_they_came() -> None:
    content = {Symbol(OFFSET): Symbol("@earliest")}
    filters = {
        Symbol("a"): Described(Ulong(FILTER_CODE), content),
        Symbol("b"): Described(Symbol("foreign"), "x"),
    }
    parsed = parse(filters)
    assert parsed.in_force == {Symbol("a"): Described(Ulong(FILTER_CODE), content)}
    assert parsed.position.start is Start.EARLIEST


def test_filters_of_one_set_are_anded() -> None:
    one = position_filter(event_streams_offset=Symbol(offset_symbol(4)))
    two = {Symbol("b"): Described(Symbol(FILTER_NAME), {Symbol(TIMESTAMP): Timestamp(5)})}
    assert parse({**one, **two}).position == LogPosition(Start.EARLIEST, 5, 5)
    latest = {Symbol("c"): Described(Symbol(FILTER_NAME), {Symbol(OFFSET): Symbol("@latest")})}
    assert parse({**one, **latest}).position == LogPosition(Start.LATEST, 5)


@pytest.mark.parametrize(
    "filters",
    [
        position_filter(event_streams_offset=4),
        position_filter(event_streams_offset=b"4"),
        position_filter(event_streams_timestamp="now"),
        position_filter(event_streams_timestamp=True),
        position_filter(event_streams_source_partition=Symbol("0")),
        {Symbol("start"): Described(Symbol(FILTER_NAME), [OFFSET, "x"])},
        {Symbol("start"): "undescribed"},
    ],
)
def test_malformed_filters_are_named(filters: dict[Symbol, object]) -> None:
    with pytest.raises(AmqpError) as caught:
        parse(filters)
    assert caught.value.condition == INVALID_FIELD
    assert caught.value.info == {"filter": "start"}


def test_matching_is_strict_and_per_event() -> None:
    position = LogPosition(Start.EARLIEST, 0, 150)
    assert [t for t in (100, 300, 50, 400, 150) if position.matches(0, t)] == [300, 400]


@given(OFFSETS, OFFSETS, OFFSETS)
def test_the_start_lies_in_what_is_retained(first: int, a: int, b: int) -> None:
    low, high = sorted((a, b))
    start = LogPosition(Start.EARLIEST, first).first(low, high)
    assert low <= start <= high
    assert LogPosition(Start.LATEST, first).first(low, high) == high


@given(st.integers(0, 10**16 - 1), OFFSETS)
def test_offsets_leave_room_for_a_generation(first: int, other: int) -> None:
    """docs/decisions/0015: its four digits could take the place of the first four, and sort behind all there were."""
    symbol = offset_symbol(first)
    assert (len(symbol), symbol[:4]) == (20, "0000")
    assert symbol < f"0001{first:016d}"
    assert offset_symbol(other)[0] == "0"
