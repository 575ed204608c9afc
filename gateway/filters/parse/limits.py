"""The size limits of filters (FX-3-3, FX-5-25), which bound the cost of an attach from its first byte."""

from __future__ import annotations

from typing import Final, NamedTuple

from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError


class FilterLimits(NamedTuple):
    """The limits of the policy's `filters`; more of anything is refused with amqp:resource-limit-exceeded."""

    length: int = 4096
    """Characters of an expression."""
    tokens: int = 200
    """Words, signs and constants of an expression."""
    depth: int = 8
    """Groups within groups (`all`, `any`, `not`)."""
    nodes: int = 1024
    """Terms of all filters of one link together."""
    items: int = 256
    """Filters of a set, members of a group, entries of a property filter, values of IN."""


LIMITS: Final = FilterLimits()
NESTING: Final = 48
"""The maximum nesting of terms in an expression; no policy changes it, because functions recurse over predicates."""


def exceeded(what: str, limit: int) -> AmqpError:
    """The error for an exceeded limit."""
    return AmqpError(RESOURCE_LIMIT_EXCEEDED, f"{what}: the limit is {limit}")
