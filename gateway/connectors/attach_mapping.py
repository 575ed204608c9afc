"""Maps the attach of each side of a relay to the one of the other side: capabilities, properties, filters, sizes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

from gateway.amqp.codec.codec import encode
from gateway.amqp.codec.types import Value, ValueMap
from gateway.amqp.proton.proton_data import AttachReply
from gateway.errors import FRAME_SIZE_TOO_SMALL, AmqpError
from gateway.filters.parse.filter_set import RULES, read
from gateway.filters.predicate import TRUE
from gateway.links.link import NodeLink, is_outgoing
from gateway.links.link_context import RESPONSE_ADDRESS_SUPPORTED, announced_capabilities
from gateway.nodes.direct.receiver_filter import Predicate
from gateway.nodes.pairs import PAIRED
from gateway.routing.announcements import supports_annotations
from gateway.routing.event_annotations import LINK_PROPERTIES

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link

_AROUND: Final = 200
"""Bytes of an attach beside its name, address, capabilities, properties and filter, at most."""


def remote_request(
    local: NodeLink, engine: Engine, address: str, own: tuple[str, ...], *, same_scope: bool
) -> AttachReply:
    """Our attach at the container; `own`: our capabilities there."""
    wanted = local.target if local.incoming else local.source
    most = smaller(engine.config.max_message_size, local.most) if is_outgoing(local) else 0
    return AttachReply(
        address=address,
        capabilities=wanted.capabilities,
        properties=visible_properties(local.properties, same_scope=same_scope),
        filter=wanted.filter,
        distribution_mode=wanted.distribution_mode,
        own=own,
        max_message_size=most,
    )


def oversized(largest: int, reply: AttachReply, name: str = "") -> AmqpError | None:
    """The error for an attach that does not fit into a frame of so many bytes (0: any number), or None.

    An attach cannot be split (2.7.1), and what one side of a relay says must not end the connection of the other side,
    which may have other links.
    """
    texts = name, reply.address or "", *reply.capabilities, *reply.own
    maps = (encode(dict(each)) for each in (reply.properties, reply.filter) if each)
    size = _AROUND + sum(len(text.encode()) + 5 for text in texts) + sum(map(len, maps)) if largest else 0
    if size <= largest:
        return None
    text = f"this attach takes {size} bytes on the other side of the gateway, where a frame may have {largest}"
    return AmqpError(FRAME_SIZE_TOO_SMALL, f"{text}: its properties, filter or capabilities are too long")


def own_capabilities(local: NodeLink, *, same_scope: bool) -> tuple[str, ...]:
    """The capabilities of our target at the container: annotations are honoured if a transform or the receiver does.

    Otherwise a message with annotations ends the link (RA-2.3-3).
    """
    crosses = not same_scope and local.context.replies != "none"
    capable = is_outgoing(local) and supports_annotations(local)
    return (RESPONSE_ADDRESS_SUPPORTED,) if crosses or capable else ()


def visible_properties(properties: Mapping[Value, Value], *, same_scope: bool) -> Mapping[Value, Value]:
    """The link properties for the other side: in another scope only those of event streams (RA 1).

    The property of link pairs is never passed on, because a pair is between two containers.
    """
    if same_scope:
        return {name: value for name, value in properties.items() if name != PAIRED}
    return {name: value for name, value in properties.items() if name in LINK_PROPERTIES}


def filters_in_force(local: NodeLink, remote: Mapping[Value, Value]) -> tuple[ValueMap, Predicate]:
    """The filters in force: those that the container applies, and the others as far as the gateway knows them.

    Raises AmqpError if one of the others is invalid.
    """
    if local.incoming:
        return dict(remote), TRUE
    own = {name: value for name, value in local.source.filter.items() if remote.get(name) != value}
    rest = read(own, local.filter_rules or RULES, local.scope)
    return {**remote, **rest.in_force}, rest.predicate


def announced(local: NodeLink, remote: Link, given: Iterable[str]) -> tuple[str, ...]:
    """The capabilities of the remote target; support of annotations as far as the gateway has it (RA-2.2-4)."""
    others = tuple(name for name in given if name != RESPONSE_ADDRESS_SUPPORTED)
    crosses = local.context.scope != remote.context.scope
    honours = local.context.announces and (crosses or supports_annotations(remote))
    return others + announced_capabilities(local, honours)


def smaller(ours: int, theirs: int) -> int:
    """The smaller of two size limits in bytes; 0: no limit."""
    return min(filter(None, (ours, theirs)), default=0)
