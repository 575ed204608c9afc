"""Where each message finds its own way: the anonymous terminus and the reply addresses.

- null target: the message goes to its `to` (AT 2.2), with the error a direct link would have got;
- `$replies.<scope>`: a response that carries a cookie goes home (RA 2.4);
- `$replies.<scope>/<token>`: a response to a rewritten request goes home (RA 2.5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from gateway.amqp.codec import Symbol
from gateway.amqp.sections import property_field, walk
from gateway.errors import NOT_ALLOWED, PRECONDITION_FAILED, AmqpError
from gateway.nodes.announcing import RESPONSE_ADDRESS_SUPPORTED, announcing, way
from gateway.nodes.crossings import HOMEWARD, Crossings, replies_address
from gateway.nodes.homeward import HomeRouter, Tolled
from gateway.nodes.routed import WINDOW, Aim, Demands, RoutedLink
from gateway.scope.annotate import Restored
from gateway.scope.fields import TO, address_text

if TYPE_CHECKING:
    from gateway.amqp.link import Link
    from gateway.nodes.scopes import Scope

_PARTITION: Final = Symbol("event-streams-partition")


def attach_anonymous(scope: Scope, link: Link) -> None:
    """The anonymous terminus of `scope` (AT 2.3)."""

    replies = replies_address(scope.name)
    rewritten = replies + "/"

    def aim(link: Link, data: bytes) -> Aim:
        layout = walk(data)
        raw = property_field(data, layout, TO)
        to = None if raw is None else address_text(raw, "to")
        if to is None:
            raise AmqpError(PRECONDITION_FAILED, "a message on an anonymous link needs a `to`")
        if to.startswith(rewritten) and scope.takes_replies(to):
            return homeward(scope, crossings().undo(scope.name, to[len(rewritten) :], data, layout), link.user)
        if to == replies:
            return homeward(scope, crossings().restore(scope.name, data), link.user)
        return Aim((scope.name, to, ""), data, lambda route: scope.attach_to(route, to, link.user))

    def crossings() -> Crossings:
        return scope.world.crossings

    capabilities, properties = _wishes(scope, link)
    announcing(link, bool(capabilities))
    demands = Demands(frozenset(capabilities), frozenset(properties))
    HomeRouter(link, aim, scope.world.waits, demands).start(capabilities, properties)


def _wishes(scope: Scope, link: Link) -> tuple[tuple[str, ...], dict[Any, Any]]:
    """What of a sender's wishes at least some destination can fulfil (AT-2.2.1-3); by policy, not by asking them."""
    routed = scope.world.crossings.routes(scope.name) and scope.rules.responses
    wanted = routed and RESPONSE_ADDRESS_SUPPORTED in link.target.capabilities
    bound = scope.rules.event_streams and _PARTITION in link.properties
    return (
        (RESPONSE_ADDRESS_SUPPORTED,) if wanted else (),
        {_PARTITION: link.properties[_PARTITION]} if bound else {},
    )


def attach_replies(scope: Scope, link: Any, address: str) -> None:
    """The addresses under which responses come home through this gateway."""
    if not link.incoming:
        raise AmqpError(NOT_ALLOWED, "responses are sent here, not received")
    aim = _responses(scope, address)
    router = HomeRouter(link, aim, scope.world.waits, window=window(scope))
    router.start(announcing(link, scope.world.crossings.routes(link.way.scope)))


def _responses(scope: Scope, address: str) -> Any:
    world = scope.world
    _, rewritten, token = address.partition("/")
    if rewritten:
        world.crossings.check(scope.name, token)

    def aim(link: Link, data: bytes) -> Aim:
        if rewritten:
            return homeward(scope, world.crossings.undo(scope.name, token, data), link.user)
        return homeward(scope, world.crossings.restore(scope.name, data), link.user)

    return aim


def window(scope: Scope) -> int:
    """Credit for responses: with `response_rate`, what one responder may send in a second."""
    return WINDOW if scope.buckets is None else min(scope.buckets.burst, WINDOW)


def homeward(scope: Scope, restored: Restored, responder: str) -> Aim:
    """The route home; where a previous gateway gave a link target, to that (RA-2.3-17).

    Raises `Tolled` where the response has to wait for its turn, or for a use that is left.
    """
    address = restored.target or restored.address
    assert address is not None  # a response without a destination was refused before
    origin = scope.world.scopes[restored.scope]
    onward = way(scope.name, "auto" if restored.onward else HOMEWARD, answer=True)

    def attach(route: RoutedLink) -> None:
        route.way = onward
        origin.attach_to(route, address, None)

    cookie, buckets = restored.cookie, scope.buckets
    assert cookie is not None  # what brought it
    if buckets is None and cookie.uses is None:
        return Aim((restored.scope, address, onward.replies), restored.data, attach)
    kind = onward.replies if cookie.uses is None else f"{onward.replies}, counted"
    aim = Aim((restored.scope, address, kind), restored.data, attach)
    raise Tolled(aim, None if buckets is None else buckets.of(responder), cookie, restored.refuse)
