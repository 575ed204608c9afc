"""Routes the messages of one link to many nodes (AT 2.2; responses, RA 2.4).

The anonymous terminus and the reply addresses accept messages for many nodes on one link. Each destination has a
`DestinationLink`, with the same resolver, attach, errors and credit as any link. Messages wait here for credit of their
destination, up to `MAX_QUEUED` messages and its share (`fair_share`); more are released, so that a slow destination
delays no others. Credit is granted again with the outcome, so that a sender is not faster than its destinations.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.outcomes import RELEASED
from gateway.amqp.link.transactions import PostedMessage
from gateway.amqp.message.hop import TARGETED
from gateway.errors import NOT_IMPLEMENTED, AmqpError
from gateway.links.link import Delivery, IncomingLink, PolicyVerdict
from gateway.links.reject import reject_delivery
from gateway.response.cookies.cookie_store import CookieNotLoaded
from gateway.routing.announcements import RequiredCapabilities
from gateway.routing.destination_link import Destination, DestinationLink, PendingDestination
from gateway.routing.requester_limits import NoRoomLeft, must_close

WINDOW: Final = 1000  # the credit of such a link


class MessageRouter(Incoming):
    """The handler of a link whose messages go to many nodes; `destination_of` finds each, or raises why not."""

    ended = outlived = False
    """`ended`: the link has ended. `outlived`: settled messages may wait longer than their link."""

    def __init__(
        self,
        link: IncomingLink,
        destination_of: Callable[[IncomingLink, bytes], Destination],
        demands: RequiredCapabilities = RequiredCapabilities(),  # noqa: B008  immutable
    ) -> None:
        self.link: Final = link
        self.demands: Final = demands
        self._destination_of: Final = destination_of
        self._routes: OrderedDict[tuple[str, str, str], DestinationLink] = OrderedDict()
        self._owed = 0

    def start(self, capabilities: tuple[str, ...] = (), properties: Mapping[Any, Any] | None = None) -> None:
        """Accept the link."""
        size = self.link.engine.config.max_message_size
        self.link.accept(
            self, max_message_size=size, capabilities=capabilities, properties=properties, understands=TARGETED
        )
        self.link.grant(WINDOW)

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        try:
            destination = self._destination_of(self.link, data)
        except AmqpError as error:
            self.refuse(delivery, error, settled)
            return
        except (PendingDestination, CookieNotLoaded) as wait:
            self.wait(wait, delivery, data, settled)
            return
        try:
            route = self._routes.get(destination.key) or self._open(destination)
        except AmqpError as error:
            self.unreachable(delivery, error, settled, answer=destination.until_ms is not None)
        else:
            route.transfer(delivery, destination.data, settled, destination.until_ms)

    def on_post(self, post: PostedMessage, data: bytes) -> None:
        """A message in a transaction; the transaction, and not credit of its destination, limits what may wait."""
        try:
            destination = self._destination_of(self.link, data)
        except (PendingDestination, CookieNotLoaded):
            text = "a response whose cookie has limits cannot be sent in a transaction"
            raise AmqpError(NOT_IMPLEMENTED, text) from None
        (self._routes.get(destination.key) or self._open(destination)).post(post, destination.data)

    def busy(self) -> None:
        """A destination has unsettled messages after it had none."""

    def opened(self, route: DestinationLink) -> None:
        """A destination has accepted its link."""

    def _open(self, destination: Destination, kind: type[DestinationLink] = DestinationLink) -> DestinationLink:
        if (other := must_close(self._routes.values())) is not None:
            del self._routes[other.key]
            other.end(None)
        route = kind(self, self.link, destination.key)
        destination.attach(route)
        if route.error is not None:
            raise route.error
        self.opened(route)
        self._routes[destination.key] = route
        return route

    def wait(self, wait: PendingDestination | CookieNotLoaded, delivery: Delivery, data: bytes, settled: bool) -> None:
        """Messages wait only in `response_router`."""
        raise wait

    def give_back(self) -> None:
        """The link is about to end: release waiting messages while the sender can still get outcomes."""
        for route in list(self._routes.values()):
            route.detach(None)

    def on_detach(self, error: AmqpError | None) -> None:
        self.ended = True
        for route in list(self._routes.values()):
            route.close()

    def policy_changed(self, verdict: PolicyVerdict) -> None:
        """After a reload: end destinations that are no longer allowed, with their waiting messages."""
        for route in list(self._routes.values()):
            if (error := verdict(route)) is not None:
                route.detach(error)

    def forget(self, route: DestinationLink) -> None:
        if self._routes.get(route.key) is route:
            del self._routes[route.key]

    def refuse(self, delivery: Delivery, error: AmqpError, settled: bool) -> None:
        reject_delivery(self.link, delivery, error, settled)
        self.passed()

    def unreachable(self, delivery: Delivery, error: AmqpError, settled: bool, *, answer: bool) -> None:
        """Refuse a message that its destination does not accept, or release it where there is no room for that now.

        A settled response (`answer`) is dropped instead: it is no fault of the responder that its requester has left,
        and its link carries other responses, too. The address it was sent to is linkable (row AT-2.2.2-14).
        """
        if not (settled and answer) and not isinstance(error, NoRoomLeft):
            self.refuse(delivery, error, settled)
            return
        self.link.message_refused(error)
        self.release(delivery, settled)

    def release(self, delivery: Delivery, settled: bool) -> None:
        """Release a message that was not passed on: its sender may send it again. A settled one is dropped."""
        if settled:
            self.link.drop(delivery)
        else:
            self.link.settle(delivery, RELEASED)
        self.passed()

    def fail(self, error: AmqpError) -> None:
        self.link.fail(error)

    def passed(self) -> None:
        """A delivery has its outcome: grant its credit to the sender again, in batches."""
        self._owed += 1
        if self._owed >= WINDOW // 4 or not self.link.granted:
            self.link.grant(self._owed)
            self._owed = 0
