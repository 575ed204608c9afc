"""Services that take a while: a request is accepted when its answer was taken, as with any service (RA 2.3).

Whoever answers is called with the request, and calls back once. A request whose answer could not be sent is refused
before anything is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from gateway.amqp.message.section_index import DATA
from gateway.amqp.message.sections import application_properties, body_kind, body_values, properties
from gateway.errors import NOT_ALLOWED, NOT_FOUND, RESOURCE_LIMIT_EXCEEDED, UNAUTHORIZED_ACCESS, AmqpError
from gateway.links.link import Delivery, IncomingLink, NodeLink, is_incoming
from gateway.links.link_context import announced_capabilities
from gateway.nodes.service import answer_destination
from gateway.nodes.service_calls import Responder, ServiceAnswer, ServiceRequest
from gateway.principal import User
from gateway.response.echo import Request, read_request, respond
from gateway.routing.destination_link import Destination
from gateway.routing.message_router import MessageRouter

if TYPE_CHECKING:
    from gateway.nodes.base import Resolver

MOST: Final = 64
"""Requests of one link that may wait for their answers."""


class ResponderNode:
    """The node of a service that one of the gateway's responders is; `name` is the responder's in its scope."""

    def __init__(self, scope: Resolver, name: str) -> None:
        self._scope: Final = scope
        self._name: Final = name

    def attach(self, link: NodeLink) -> None:
        """Take a sender of requests; raises AmqpError for a receiver."""
        if not is_incoming(link):
            raise AmqpError(NOT_ALLOWED, "this address accepts requests; responses go to their reply-to")
        honours = self._scope.context.transforms.routes(link.context.scope) and link.context.replies != "none"
        _RequestRouter(link, self._scope, self._name).start(announced_capabilities(link, honours))


class _RequestRouter(MessageRouter):
    """Takes the requests of one link, and sends their answers on."""

    def __init__(self, link: IncomingLink, scope: Resolver, name: str) -> None:
        super().__init__(link, self._answer_of)
        self._scope: Final = scope
        self._name: Final = name
        self._waiting = 0
        self._answer: Destination | None = None

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        try:
            request, destination = self._read(data)
            service_request, responder = self._service_request(request), self._responder()
        except AmqpError as error:
            self.refuse(delivery, error, settled)
            return
        self._waiting += 1

        def answered(answer: ServiceAnswer) -> None:
            self._waiting -= 1
            if not self.ended:
                response = respond(request, service_request.subject or "", answer.properties, answer.document)
                self._answer = destination._replace(data=response)
                super(_RequestRouter, self).on_transfer(delivery, b"", settled)

        responder(service_request, answered)

    def _answer_of(self, link: IncomingLink, data: bytes) -> Destination:
        assert self._answer is not None
        return self._answer

    def _read(self, data: bytes) -> tuple[Request, Destination]:
        """The request, and where its answer goes; raises AmqpError where nobody would take that."""
        if self._waiting >= MOST:
            raise AmqpError(RESOURCE_LIMIT_EXCEEDED, f"{MOST} requests of one link wait for their answers")
        request = read_request(data, honoured=self._scope.context.transforms.routes(self._scope.name))
        destination = answer_destination(self._scope, self.link, request, b"")
        if destination.key not in self._routes:
            self._open(destination)
        return request, destination

    def _service_request(self, request: Request) -> ServiceRequest:
        requester = self.link.requester
        if not isinstance(requester, User) or requester.scope != self._scope.name or not requester.name:
            raise AmqpError(UNAUTHORIZED_ACCESS, "this service is for users of its own scope")
        data, layout = request.data, request.layout
        named = {str(key): value for key, value in application_properties(data, layout).items()}
        body = b"".join(body_values(data, layout)) if body_kind(data, layout) == DATA else None
        return ServiceRequest(requester.name, properties(data, layout).subject, named, body)

    def _responder(self) -> Responder:
        responder = self._scope.context.responders.get((self._scope.name, self._name))
        if responder is None:
            raise AmqpError(NOT_FOUND, f"there is no {self._name} here any more")
        return responder
