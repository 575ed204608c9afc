"""What a receiver asks for, as event streams express it."""

from __future__ import annotations

import pytest

from bridges.eventhubs.addresses import read_address
from bridges.eventhubs.positions import link_properties, position
from gateway.amqp.codec.types import Described, Long, Symbol, Timestamp, Uint, Value
from gateway.errors import INVALID_FIELD, AmqpError
from gateway.filters.parse.filter_set import SELECTOR, read
from gateway.filters.position.event_stream import NEVER, LogPosition, Start

FROM = "orders/ConsumerGroups/billing/Partitions/0"


def selector(text: str) -> dict[Value, Value]:
    return {Symbol(SELECTOR): Described(Symbol(SELECTOR), text)}


@pytest.mark.row("EH-6")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amqp.annotation.x-opt-offset > '-1'", LogPosition(Start.EARLIEST)),
        ("amqp.annotation.x-opt-offset > '@latest'", LogPosition(Start.LATEST)),
        ("amqp.annotation.x-opt-offset > '41'", LogPosition(Start.EARLIEST, 42)),
        ("amqp.annotation.x-opt-offset >= '41'", LogPosition(Start.EARLIEST, 41)),
        ("amqp.annotation.x-opt-sequence-number > '7'", LogPosition(Start.EARLIEST, 8)),
        ("amqp.annotation.x-opt-sequence-number >= '0'", LogPosition(Start.EARLIEST, 0)),
        ("amqp.annotation.x-opt-sequence-number > '9223372036854775807'", LogPosition(Start.EARLIEST, NEVER)),
        ("amqp.annotation.x-opt-sequence-number >= '-9223372036854775808'", LogPosition(Start.EARLIEST)),
        ("amqp.annotation.x-opt-enqueued-time > '1795402163658'", LogPosition(Start.EARLIEST, 0, 1795402163658)),
        ("amqp.annotation.x-opt-enqueued-time >= '1795402163658'", LogPosition(Start.EARLIEST, 0, 1795402163657)),
    ],
)
def test_selectors_are_positions(text: str, expected: LogPosition) -> None:
    assert read(position(selector(text))).position == expected


def test_without_a_selector_it_starts_at_the_oldest_event() -> None:
    assert read(position({})).position == LogPosition(Start.EARLIEST)


@pytest.mark.row("EH-6")
@pytest.mark.parametrize(
    "filters",
    [
        selector("color = 'red'"),
        selector("amqp.annotation.x-opt-offset > 'x'"),
        selector("amqp.annotation.x-opt-offset < '1'"),
        selector("amqp.annotation.x-opt-offset > '1' OR 1=1"),
        selector("amqp.annotation.x-opt-offset > '99999999999999999999'"),
        selector("amqp.annotation.x-opt-offset > '9223372036854775808'"),
        {**selector("amqp.annotation.x-opt-offset > '1'"), Symbol("b"): Described(Symbol(SELECTOR), "x")},
        {Symbol("a"): Described(Symbol("other"), "x")},
        {Symbol("a"): 7},
    ],
)
def test_other_filters_are_refused(filters: dict[Value, Value]) -> None:
    with pytest.raises(AmqpError) as caught:
        position(filters)
    assert caught.value.condition == INVALID_FIELD


@pytest.mark.row("EH-7")
def test_an_owner_level_makes_a_member_of_the_group() -> None:
    address = read_address(FROM)
    assert link_properties(address, {}) == {Symbol("event-streams-partition"): "0"}
    assert link_properties(address, {Symbol("com.microsoft:epoch"): Long(0)}) == {
        Symbol("event-streams-partition"): "0",
        Symbol("event-streams-consumer-group"): "billing",
        Symbol("event-streams-epoch"): 0,
    }


@pytest.mark.parametrize("epoch", [Long(-1), "1", True, Timestamp(1), Uint(3)])
def test_an_owner_level_is_a_number(epoch: Value) -> None:
    properties = {Symbol("com.microsoft:epoch"): epoch}
    if type(epoch) is Uint:
        assert link_properties(read_address(FROM), properties)[Symbol("event-streams-epoch")] == 3
        return
    with pytest.raises(AmqpError) as caught:
        link_properties(read_address(FROM), properties)
    assert caught.value.condition == INVALID_FIELD
