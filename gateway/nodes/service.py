"""Services inside the gateway, which answer requests as every responder has to (RA 2.3, 2.4).

The response goes to the address that the request names, through the same resolver as any message. The request gets the
outcome of its response, errors included.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from gateway.errors import NOT_ALLOWED, NOT_FOUND, PRECONDITION_FAILED, AmqpError
from gateway.links.link import IncomingLink, NodeLink, is_incoming
from gateway.links.link_context import RESPONSE_ADDRESS_SUPPORTED, LinkContext, announced_capabilities, link_context
from gateway.principal import User, nobody
from gateway.response.echo import Request, echo, read_request
from gateway.routing.destination_link import Destination, DestinationLink
from gateway.routing.message_router import MessageRouter
from gateway.routing.reserved import ME

if TYPE_CHECKING:
    from gateway.links.link import Transform
    from gateway.nodes.base import Resolver


class _ServiceTarget(NamedTuple):
    capabilities: tuple[str, ...]
    address: str | None = None


class _ServiceEnd(NamedTuple):
    """The service as the target of a message from another scope."""

    context: LinkContext
    target: _ServiceTarget
    address: str | None = None
    announcement_counts: bool = True


class ServiceNode:
    """The node of a service in `scope`."""

    def __init__(self, scope: Resolver) -> None:
        self._scope: Final = scope

    def attach(self, link: NodeLink) -> None:
        """Accept a sender of requests; raises AmqpError for a receiver."""
        if not is_incoming(link):
            raise AmqpError(NOT_ALLOWED, "this address accepts requests; responses go to their reply-to")
        honours = self._scope.context.transforms.routes(link.context.scope) and link.context.replies != "none"
        MessageRouter(link, _AnswerLink(self._scope)).start(announced_capabilities(link, honours))


class _AnswerLink:
    """Makes the responses to the requests of one link."""

    def __init__(self, scope: Resolver) -> None:
        self._scope: Final = scope
        self._target: Final = _ServiceEnd(link_context(scope.name), _ServiceTarget((RESPONSE_ADDRESS_SUPPORTED,)))
        self._cached: tuple[Any, Transform | None] = (None, None)

    def __call__(self, link: IncomingLink, data: bytes) -> Destination:
        scope = self._scope
        if link.context.scope != scope.name and (crossing := self._transform(link)) is not None:
            data = self._crossed(link, crossing, data)
        request = read_request(data, honoured=scope.context.transforms.routes(scope.name))
        return answer_destination(scope, link, request, echo(request))

    @staticmethod
    def _crossed(link: IncomingLink, crossing: Transform, data: bytes) -> bytes:
        try:
            return crossing(data)
        except AmqpError as error:  # about the message, not about the service
            raise error.of(link.context.scope) from error.__cause__

    def _transform(self, link: IncomingLink) -> Transform | None:
        """The transform of requests from another scope; decided again after a reload."""
        transforms = self._scope.context.transforms
        if self._cached[0] is not transforms:
            self._cached = (transforms, self._scope.context.transform_for(link, self._target))
        return self._cached[1]


def answer_destination(scope: Resolver, link: IncomingLink, request: Request, response: bytes) -> Destination:
    """Where the response to a request goes, with the rights of its requester; raises AmqpError."""
    address = _destination(link, request, scope.name)
    return Destination((scope.name, address, ""), response, _attach(scope, address, _responder(link, scope.name)))


def _destination(link: IncomingLink, request: Request, scope: str) -> str:
    """The response's address: that of the link pair, the link target, or the reply-to (RA-2.3-5, -7, -9)."""
    address: str | None
    if request.reply_to == ME and link.context.scope == scope and link.context.pair is not None:
        address = link.context.pair.address
    else:
        address = request.target or request.reply_to
        if address is None:
            raise AmqpError(PRECONDITION_FAILED, "the request has no reply-to")
    if address is None or address == ME:
        raise AmqpError(NOT_FOUND, "$me: there is no paired link for the response")
    return address


def _responder(link: IncomingLink, scope: str) -> User:
    """The user that a response is sent as: that of the request, so that the access rules apply."""
    requester = link.requester
    return requester if isinstance(requester, User) and requester.scope == scope else nobody(scope)


def _attach(scope: Resolver, address: str, responder: User) -> Callable[[DestinationLink], None]:
    def attach(route: DestinationLink) -> None:
        route.context, route.requester = link_context(scope.name), responder
        scope.attach_to(route, address, responder)

    return attach
