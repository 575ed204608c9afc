"""Partition names on links and transfers (ES 4.6.1, 4.6.6; KM-1: the decimal Kafka index)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.amqp.codec.types import Symbol, Value
from gateway.errors import INVALID_FIELD, NOT_FOUND, NOT_IMPLEMENTED, AmqpError

PARTITION: Final = "event-streams-partition"
GROUP: Final = "event-streams-consumer-group"
TARGET: Final = "event-streams-target-partition"


def number(value: object, partitions: int, field: str) -> int:
    """The partition that `value` names, a symbol or a string (many clients cannot send symbols). Raises AmqpError."""
    if not isinstance(value, str):
        raise AmqpError(INVALID_FIELD, f"{field} must be a symbol", info={"field": field})
    if not (value.isascii() and value.isdigit() and len(value) < 10 and str(int(value)) == value):
        raise AmqpError(NOT_FOUND, f"there is no partition {value[:40]!r}")
    if (index := int(value)) >= partitions:
        raise AmqpError(NOT_FOUND, f"there is no partition {value!r}, only 0 to {partitions - 1}")
    return index


def bound(properties: Mapping[Value, Value], partitions: int) -> int | None:
    """The partition that a link asks to be bound to, None for an agnostic link."""
    if (wanted := properties.get(PARTITION)) is None:
        return None
    return number(wanted, partitions, PARTITION)


def refuse_group(properties: Mapping[Value, Value]) -> None:
    """Raise AmqpError if a link to `$info` names a group: ignoring the group would suggest that it is supported."""
    if properties.get(GROUP) is not None:
        raise AmqpError(NOT_IMPLEMENTED, "$info has no consumer groups", info={"field": GROUP})


def properties_of(partition: int | None) -> dict[Symbol, Symbol] | None:
    """ES-4.1-4, ES-4.3-4: the partition in force; an agnostic answer has no such key."""
    return None if partition is None else {Symbol(PARTITION): Symbol(str(partition))}
