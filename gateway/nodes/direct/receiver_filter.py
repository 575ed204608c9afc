"""Filters of receivers at nodes that store nothing: what an attach asks for, and who takes a message (FX 2).

A message is looked at as it came: on its way into another scope it gets annotations, or another reply address, and
nothing else. What a filter cannot be evaluated on matches no filter; without a filter nothing is looked at.
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
from gateway.nodes.link import OutgoingLink

__all__ = ["ACCESS", "CAPABILITIES", "FilterSet", "Predicate", "Test", "filters_of", "message_test", "source_of"]

Test = Callable[[Encoded], bool]
ACCESS: Final = MessageAccess()


def filters_of(link: OutgoingLink) -> FilterSet:
    """What the filters of a link of the peer's ask for; raises AmqpError for what is refused."""
    return read(link.source.filter, link.filter_rules or RULES)


def message_test(predicate: Predicate) -> Test | None:
    """Whether an encoded message matches; None: all of them do."""
    return None if predicate == TRUE else compile_filter(predicate, ACCESS)


def source_of(data: bytes) -> Encoded | None:
    """A message as filters read it; None: it is malformed."""
    try:
        return data, walk(data)
    except AmqpError:
        return None
