"""Routes the messages of one link to many nodes (AT 2.2; responses, RA 2.4).

The anonymous terminus and the reply addresses accept messages for many nodes on one link. Each destination has a
`DestinationLink`, with the same resolver, attach, errors and credit as any link. Messages wait here for credit of their
destination, up to `MAX_QUEUED` messages and its share (`fair_share`); more are released, so that a slow destination
delays no others. Credit is granted again with the outcome, so that a sender is not faster than its destinations.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.outcomes import RELEASED, Outcome
from gateway.amqp.message.hop import ROUTING, TARGETED, may_be_annotated, only
from gateway.errors import AmqpError
from gateway.nodes.internal_link import InternalLink
from gateway.nodes.link import Delivery, IncomingLink, PolicyVerdict
from gateway.nodes.reject import reject_delivery
from gateway.response.cookie_store import CookieNotLoaded
from gateway.routing.announcements import RequiredCapabilities
from gateway.routing.requester_limits import (
    BESIDE,
    DETACHED,
    HeldMessage,
    NoRoomLeft,
    RequesterLimit,
    must_close,
)

WINDOW: Final = 1000  # the credit of such a link
MAX_QUEUED: Final = 250
"""Messages that may wait for one destination's credit; a quarter of the window, so three others fit beside it."""


class Destination(NamedTuple):
    """The destination of a message: `key` has scope, address and kind; `attach` attaches its `DestinationLink`.

    The message may wait for credit until `until_ms`; None: as long as its link is open.
    """

    key: tuple[str, str, str]
    data: bytes
    attach: Callable[[DestinationLink], None]
    until_ms: int | None = None


class PendingDestination(Exception):
    """Raised by `destination_of` for a message that has to wait; the router's subclass knows for what."""


class DestinationLink(InternalLink[Incoming]):
    """A link to one destination, as its node sees it (`gateway.nodes.link.IncomingLink`)."""

    incoming: Final = True

    def __init__(self, router: MessageRouter, link: IncomingLink, key: tuple[str, str, str]) -> None:
        super().__init__(link.context, link.requester)
        self._router: Final = router
        self._link: Final = link
        self.key: Final = key
        self.engine: Final = link.engine
        self.name: Final = link.name
        self.source: Final = link.source
        self.target: Final = link.target._replace(present=True, address=key[1])
        self.properties: Final = link.properties
        self.presettled = link.presettled
        self.granted = 0
        self.busy = 0
        """Messages without an outcome, waiting here or passed on."""
        self.group: Hashable = key
        """The requester: its destinations share one limit."""
        self.still = 0
        """Checks in a row that found unsettled messages and no new outcome."""
        self.quota = RequesterLimit()
        """The shared limit of its group."""
        self._done = 0
        self._paused_credit: int | None = None
        self._attended = False
        self._waiting: deque[HeldMessage] = deque()
        self.error: AmqpError | None = None

    @property
    def address(self) -> str | None:
        return self.key[1]

    @property
    def scope(self) -> str:
        return self._link.scope

    @property
    def user(self) -> str:
        return self._link.user

    @property
    def rejects(self) -> bool:
        return self._link.rejects

    def drop(self, delivery: Delivery) -> None:
        self.busy -= 1
        self._done += 1
        self._link.drop(delivery)
        self._router.passed()

    def message_refused(self, error: AmqpError) -> None:
        self._link.message_refused(error)

    def tag(self, delivery: Delivery) -> bytes:
        return self._link.tag(delivery)

    # -- for the node

    def accept(
        self,
        handler: Any,
        *,
        max_message_size: int = 0,
        capabilities: Iterable[str] = (),
        properties: Mapping[Any, Any] | None = None,
        understands: frozenset[bytes] = ROUTING,
        **_: Any,
    ) -> None:
        self.max_message_size, self.understands = max_message_size, understands
        if not self.gone and (missing := self._router.demands.missing(capabilities, properties)) is not None:
            self.refuse(missing)
        if self.accepted(self.instrumented(handler)):
            self._attended = handler.attended

    def grant(self, credit: int) -> None:
        if self._paused_credit is not None:
            self._paused_credit += credit
            return
        self.granted += credit
        stayed = self._router.ended and bool(self._waiting)
        while self._waiting and self.granted > 0 and self.open:
            (message := self._waiting.popleft()).give_back()
            self._give(*message[:3])
        if stayed:
            self.perhaps_done()

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        self.busy -= 1
        self._done += 1
        self._link.settle(delivery, outcome)
        self._router.passed()

    def fail(self, error: AmqpError) -> None:
        """A settled message cannot be refused: end its link, unless it also carries responses of others."""
        if not (self.context.answer and self._link.rejects):
            self._router.fail(error)

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """End the node's link first; then release the waiting messages."""
        self.error = error
        for message in self._waiting:
            message.give_back()  # the node may need this room for its own messages
        if was_open:
            self.handler.on_detach(error)
        self._router.forget(self)
        for message in self._waiting:
            if error is None:
                self._release(message.delivery, message.settled)
            else:
                self._router.unreachable(message.delivery, error, message.settled, answer=self.context.answer)
        self._waiting.clear()

    # -- for the router

    def transfer(self, delivery: Delivery, data: bytes, settled: bool, until_ms: int | None = None) -> None:
        if not self.busy:
            self._router.busy()
        self.busy += 1
        if self.granted > 0 and self.open:
            self._give(delivery, data, settled)
        elif len(self._waiting) < MAX_QUEUED and self.quota.take() and (not self._router.ended or self._stays(data)):
            self._waiting.append(HeldMessage(delivery, data, settled, until_ms, charged=self._router.ended))
        else:
            self._release(delivery, settled)

    def _release_held(self, message: HeldMessage) -> None:
        message.give_back()
        self._release(message.delivery, message.settled)

    def _release(self, delivery: Delivery, settled: bool) -> None:
        """Release a message that was not passed on; its sender may send it again."""
        if settled:
            self.drop(delivery)
        else:
            self.settle(delivery, RELEASED)
        self._done -= 1  # does not count as progress

    def _give(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        self.granted -= 1
        if may_be_annotated(data):  # the outer link supports what any destination does
            data = only(data, self.understands)
        self.handler.on_transfer(delivery, data, settled)

    def close(self) -> None:
        """The outer link has ended; settled messages still wait, if somebody may take them.

        Their sender cannot send them again.
        """
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if each.settled and self._stays(each.data):
                self._waiting.append(each._replace(charged=True))
            else:
                self.abandon(each.delivery, each.settled)
        self.perhaps_done()

    def _stays(self, data: bytes) -> bool:
        attended = not self.open or self.handler.attended
        return not self.gone and attended and self._router.outlived and DETACHED.take(len(data) + BESIDE)

    def abandon(self, delivery: Delivery, settled: bool) -> None:
        """Drop a message whose sender cannot get an outcome any more."""
        if settled:
            self._link.drop(delivery)

    def perhaps_done(self) -> None:
        """After the end of the outer link: end this one if no message waits here; else the node charges what it has."""
        if self._router.ended and not self._waiting:
            self.end(None)
        elif self._router.ended and self.open:
            self.handler.peer_left()

    @property
    def idle(self) -> bool:
        return not self.busy

    # -- for `fair_share`

    @property
    def waiting(self) -> int:
        """Messages that wait for credit."""
        return len(self._waiting)

    @property
    def handed(self) -> int:
        """Messages that the node has not settled yet."""
        return self.busy - len(self._waiting)

    @property
    def unattended(self) -> bool:
        """Whether nobody receives there, so that its messages only wait."""
        return self.open and not self.handed and not self.handler.attended

    def tidy(self, now_ms: int) -> int:
        """Release messages that expired or whose receiver left; returns the number of outcomes since the last check."""
        done, self._done = self._done, 0
        self.still = self.still + 1 if self.busy and not done else 0
        attended = self.handler.attended if self.open else self._attended
        left, self._attended = self._attended and not attended, attended or self._attended
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            if left or (each.until_ms is not None and now_ms > each.until_ms):
                self._release_held(each)
            else:
                self._waiting.append(each)
        self.perhaps_done()
        return done

    def cut(self, room: int) -> int:
        """Release waiting messages beyond `room`, the newest first; returns how many."""
        over = max(len(self._waiting) - room, 0)
        for _ in range(over):
            self._release_held(self._waiting.pop())
        self.perhaps_done()
        return over

    def pause(self, paused: bool) -> None:
        """Stop or resume passing messages on."""
        if paused and self._paused_credit is None:
            self._paused_credit, self.granted = self.granted, 0
        elif not paused and self._paused_credit is not None:
            credit, self._paused_credit = self._paused_credit, None
            self.grant(credit)


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
