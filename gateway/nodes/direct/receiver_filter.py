"""Filters of receivers at nodes that store nothing (FX 2).

A filter is evaluated on the message as it came: a transform into another scope changes only annotations and addresses.
A malformed message matches no filter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.amqp.message.sections import walk
from gateway.errors import AmqpError
from gateway.filters.evaluate.access import Encoded, MessageAccess
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.parse.filter_set import CAPABILITIES, RULES, FilterSet, read
from gateway.filters.predicate import TRUE, Predicate
from gateway.links.link import OutgoingLink

__all__ = ["ACCESS", "CAPABILITIES", "FilterSet", "Predicate", "Test", "filters_of", "message_test", "source_of"]

Test = Callable[[Encoded], bool]
ACCESS: Final = MessageAccess()


def filters_of(link: OutgoingLink) -> FilterSet:
    """The filters of an attach; raises AmqpError if they are refused."""
    return read(link.source.filter, link.filter_rules or RULES, link.scope)


def message_test(predicate: Predicate) -> Test | None:
    """A test of encoded messages; None: all of them match."""
    return None if predicate == TRUE else compile_filter(predicate, ACCESS)


def source_of(data: bytes) -> Encoded | None:
    """A message in the form that filters read; None: it is malformed."""
    try:
        return data, walk(data)
    except AmqpError:
        return None
