"""What a receiver asks for, as event streams express it: start, consumer group, owner level. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from bridges.eventhubs.addresses import HubAddress
from gateway.amqp.codec.types import Described, Long, Symbol, Timestamp, Value, ValueMap
from gateway.errors import INVALID_FIELD, AmqpError, quoted
from gateway.filters.parse.filter_set import SELECTOR, kind_of
from gateway.filters.position.event_stream import (
    EARLIEST,
    FILTER_NAME,
    LATEST,
    NEVER,
    OFFSET,
    TIMESTAMP,
    offset_symbol,
)

EPOCH: Final = "com.microsoft:epoch"
_PARTITION: Final = "event-streams-partition"
_GROUP: Final = "event-streams-consumer-group"
_EPOCH: Final = "event-streams-epoch"
_SELECTOR: Final = re.compile(
    r"\s*amqp\.annotation\.x-opt-(offset|sequence-number|enqueued-time|enqueuedtimeutc)\s*(>=?)\s*'?([^'\s]{1,30})'?\s*",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"-?[0-9]{1,19}")
_LEAST, _GREATEST = -(2**63), 2**63 - 1
"""Of a long: clients for Java and Go have no other numbers."""


def position(filters: Mapping[Value, Value]) -> ValueMap:
    """The filter set for the selectors of a receiver; without one it starts at the oldest event.

    Raises:
        AmqpError: INVALID_FIELD for a filter that no client of Event Hubs sends.
    """
    found = [_position(value) for value in filters.values() if value is not None]
    if not found:
        return _after(OFFSET, Symbol(EARLIEST))
    if len(found) > 1:
        raise AmqpError(INVALID_FIELD, "a receiver of an event hub has at most one filter")
    return found[0]


def _position(value: Value) -> ValueMap:
    if not isinstance(value, Described) or kind_of(value.descriptor) != SELECTOR or not isinstance(value.value, str):
        raise AmqpError(INVALID_FIELD, f"the filter of a receiver of an event hub must be an {SELECTOR}")
    matched = _SELECTOR.fullmatch(value.value)
    if matched is None:
        text = "compare x-opt-offset, x-opt-sequence-number or x-opt-enqueued-time with a value"
        raise AmqpError(INVALID_FIELD, f"the selector {quoted(value.value)} is not understood: {text}")
    field, comparison, literal = matched.groups()
    inclusive = comparison == ">="
    if literal.lower() == LATEST:
        return _after(OFFSET, Symbol(LATEST))
    if _NUMBER.fullmatch(literal) is None or not _LEAST <= int(literal) <= _GREATEST:
        raise AmqpError(INVALID_FIELD, f"the selector {quoted(value.value)} compares with no number")
    after = int(literal) - inclusive
    if field.lower().startswith("enqueued"):
        return _after(TIMESTAMP, Timestamp(max(after, -1)))
    return _after(OFFSET, Symbol(offset_symbol(min(after, NEVER)) if after >= 0 else EARLIEST))


def _after(field: str, value: Value) -> ValueMap:
    return {Symbol("position"): Described(Symbol(FILTER_NAME), {Symbol(field): value})}


def link_properties(address: HubAddress, properties: Mapping[Value, Value]) -> ValueMap:
    """The link properties of event streams for an attach; only an owner level makes a link a member of its group."""
    found: ValueMap = {}
    if address.partition is not None:
        found[Symbol(_PARTITION)] = Symbol(address.partition)
    if address.group is not None and (epoch := properties.get(EPOCH)) is not None:
        if isinstance(epoch, bool | Timestamp) or not isinstance(epoch, int) or epoch < 0:
            raise AmqpError(INVALID_FIELD, f"{EPOCH} must be a long, 0 or greater", info={"field": EPOCH})
        found |= {Symbol(_GROUP): address.group, Symbol(_EPOCH): Long(epoch)}
    return found
