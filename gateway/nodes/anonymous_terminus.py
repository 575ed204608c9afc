"""Targets whose messages each have a destination of their own: the anonymous terminus and the reply addresses.

- null target: the message goes to its `to` (AT 2.2), with the same errors as on a direct link;
- `$replies.<scope>`: a response with a cookie goes to its requester (RA 2.4);
- `$replies.<scope>/<token>`: a response to a rewritten request goes to its requester (RA 2.5).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from gateway.amqp.codec.codec import Symbol
from gateway.amqp.message.sections import property_field, walk
from gateway.errors import NOT_ALLOWED, NOT_FOUND, PRECONDITION_FAILED, AmqpError
from gateway.links.link import IncomingLink, NodeLink, is_incoming
from gateway.links.link_context import RESPONSE_ADDRESS_SUPPORTED, announced_capabilities, link_context
from gateway.principal import GatewayItself, client
from gateway.response.annotate import Restored
from gateway.response.crossing_rule import RESPONSE
from gateway.response.fields import NULL, TO, address_text
from gateway.routing.announcements import RequiredCapabilities
from gateway.routing.destination_link import Destination, DestinationLink
from gateway.routing.message_router import WINDOW
from gateway.routing.reply_rights import requester_at
from gateway.routing.reserved import ME
from gateway.routing.response_router import AdmissionRequired, ResponseRouter
from policies.reserved import SENT_ONLY, replies_address

if TYPE_CHECKING:
    from gateway.nodes.base import Resolver

_PARTITION: Final = Symbol("event-streams-partition")
_COUNTED: Final = ", counted"
"""Suffix of the key of routes for responses whose uses are counted."""
_PASSED_ON: Final = ", passed on"
"""Suffix of the key of routes to a link target of another gateway that uses the name of a scope of this one."""
_new: Final = tuple.__new__


def attach_anonymous(scope: Resolver, link: IncomingLink) -> None:
    """The anonymous terminus of `scope` (AT 2.3)."""

    context, name, replies = scope.context, scope.name, replies_address(scope.name)
    rewritten, route_response, sender = replies + "/", response_destination(scope, link.user), client(link)

    def attach(route: DestinationLink) -> None:
        scope.attach_to(route, route.key[1], sender)

    def destination_of(link: IncomingLink, data: bytes) -> Destination:
        layout = walk(data)
        raw = property_field(data, layout, TO) or NULL
        transforms = context.transforms
        if (token := transforms.tokens[name].get(raw)) is not None:
            return route_response(transforms.undo(name, token, data, layout))
        to = address_text(raw, "to")
        if to is None:
            raise AmqpError(PRECONDITION_FAILED, "a message to the anonymous terminus needs a `to`")
        if to.startswith(rewritten) and scope.takes_replies(to):
            token = to[len(rewritten) :]
            restored = transforms.undo(name, token, data, layout)
            transforms.remember(name, raw, token)
            return route_response(restored)
        if to == replies or (to == ME and link.context.pair is not None and link.context.pair.responder):
            return route_response(transforms.restore(name, data))
        return Destination((name, to, ""), data, attach)

    capabilities, properties = _supported_requests(scope, link)
    announced_capabilities(link, bool(capabilities))
    demands = RequiredCapabilities(frozenset(capabilities), frozenset(properties))
    ResponseRouter(link, destination_of, scope.context.waits, demands).start(capabilities, properties)


def _supported_requests(scope: Resolver, link: IncomingLink) -> tuple[tuple[str, ...], dict[Any, Any]]:
    """Requested capabilities and properties that some destination may support, judging by the policy (AT-2.2.1-3)."""
    routed = scope.context.transforms.routes(scope.name) and scope.rules.responses
    wanted = routed and RESPONSE_ADDRESS_SUPPORTED in link.target.capabilities
    bound = scope.rules.event_streams and _PARTITION in link.properties
    return (
        (RESPONSE_ADDRESS_SUPPORTED,) if wanted else (),
        {_PARTITION: link.properties[_PARTITION]} if bound else {},
    )


def attach_replies(scope: Resolver, link: NodeLink, address: str) -> None:
    """Attach a sender of responses to a response address of this gateway."""
    if not is_incoming(link):
        raise AmqpError(NOT_ALLOWED, SENT_ONLY)
    destination_of = _responses(scope, address, link.user)
    router = ResponseRouter(link, destination_of, scope.context.waits, window=response_window(scope))
    router.start(announced_capabilities(link, scope.context.transforms.routes(link.context.scope)))


def _responses(scope: Resolver, address: str, user: str) -> Callable[[IncomingLink, bytes], Destination]:
    context, name, route_response = scope.context, scope.name, response_destination(scope, user)
    _, rewritten, token = address.partition("/")
    if not rewritten:
        return lambda _, data: route_response(context.transforms.restore(name, data))
    context.transforms.check(name, token)
    return lambda _, data: route_response(context.transforms.undo(name, token, data))


def response_window(scope: Resolver) -> int:
    """Credit for responses: with `response_rate`, the burst of one responder."""
    return WINDOW if scope.buckets is None else min(scope.buckets.burst, WINDOW)


def response_destination(scope: Resolver, responder: str) -> Callable[[Restored], Destination]:
    """A function that finds the destination of each response of one link.

    It raises `AdmissionRequired` if a response has to wait for the rate limit, or needs one of a limited number of
    uses.
    """

    def attach(route: DestinationLink) -> None:
        origin, address, kind = route.key
        kind, passed_on = kind.removesuffix(_COUNTED), kind.removesuffix(_COUNTED).endswith(_PASSED_ON)
        route.context = link_context(scope.name, kind.removesuffix(_PASSED_ON), answer=True)
        there = scope.context.scopes.get(origin)
        if there is None:  # a reload has removed the scope while the response waited
            raise AmqpError(NOT_FOUND, "the requester is gone")
        route.group = origin, requester_at(there, address)
        there.attach_to(route, address, GatewayItself(origin, "response"), passed_on=passed_on)

    def route_response(restored: Restored) -> Destination:
        origin, reply_to, data, target, onward, cookie, refuse = restored
        address = target or reply_to  # a link target of a previous gateway has precedence (RA-2.3-17)
        assert address is not None  # responses without a destination are refused earlier
        assert cookie is not None  # every restored response has one
        kind, buckets = "auto" if onward else RESPONSE, scope.buckets
        if target is not None and scope.context.scopes[origin].passes_on(target, cookie.inner_cookie):
            kind += _PASSED_ON
        if buckets is None and cookie.uses is None:
            return _new(Destination, ((origin, address, kind), data, attach, cookie.expiry_ms))
        key = (origin, address, kind if cookie.uses is None else kind + _COUNTED)
        destination = Destination(key, data, attach, cookie.expiry_ms)
        raise AdmissionRequired(destination, None if buckets is None else buckets.of(responder), cookie, refuse)

    return route_response
