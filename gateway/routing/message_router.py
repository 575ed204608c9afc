"""Links inside a link: each message goes to a node of its own (AT 2.2; responses, RA 2.4).

The anonymous terminus and the reply addresses take messages for many nodes on one link. Each destination gets a
`DestinationLink`: the same resolver, attach, errors and credit as a link of its own. What a destination does not take
yet waits here, up to `MAX_QUEUED` messages and its share (`fair_share`), and is then released, so that a slow
destination holds up nobody else. Credit comes back with the outcome: a sender that got it earlier would outrun its
destination.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple

from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.outcomes import RELEASED, Outcome
from gateway.amqp.message.hop import ROUTING, TARGETED, may_be_annotated, only
from gateway.errors import NOT_IMPLEMENTED, RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.nodes.internal_link import InternalLink
from gateway.nodes.link import Delivery, IncomingLink, PolicyVerdict
from gateway.nodes.reject import reject_delivery
from gateway.response.cookie_store import CookieNotLoaded
from gateway.routing.requester_limits import BESIDE, DETACHED, HeldMessage, RequesterLimit, dispensable

WINDOW: Final = 1000  # the credit of such a link
MAX_QUEUED: Final = 250
"""Messages that may wait for one destination's credit; a quarter of the window, so three others fit beside it."""
ROUTES: Final = 256
"""Destinations one link keeps open; the longest unused idle one makes room, or else see `dispensable`."""


class Destination(NamedTuple):
    """Where a message goes: `key` names scope, address and how it crosses; `attach` gives the route to the node.

    It may wait for credit until `until_ms`; None: for as long as its link is there."""

    key: tuple[str, str, str]
    data: bytes
    attach: Callable[[DestinationLink], None]
    until_ms: int | None = None


class RequiredCapabilities(NamedTuple):
    """What was announced for a link because some destination can do it: then all must that it is used for."""

    capabilities: frozenset[str] = frozenset()
    properties: frozenset[Any] = frozenset()

    def missing(self, capabilities: Iterable[str], properties: Mapping[Any, Any] | None) -> AmqpError | None:
        """The error where a destination lacks something (AT-2.2.1-4)."""
        lacks = [*(self.capabilities - set(capabilities)), *(self.properties - set(properties or ()))]
        if not lacks:
            return None
        return AmqpError(NOT_IMPLEMENTED, f"this destination does not support {', '.join(sorted(lacks))}")


class PendingDestination(Exception):
    """Raised by an aim whose message cannot go on yet; a router that has such aims knows what it waits for."""


class DestinationLink(InternalLink[Incoming]):
    """A link to one destination; see `gateway.amqp.link.link.Link` for what a node uses of it."""

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
        """Messages without an outcome, whether they wait here or were handed on."""
        self.group: Hashable = key
        """Whose destination it is: those of one requester share what they may hold."""
        self.still = 0
        """Looks in a row that found messages under way and no outcome since the look before."""
        self.quota = RequesterLimit()
        """What those of its group may hold together."""
        self._done = 0
        self._kept_back: int | None = None
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

    # -- what a node does

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
        if self._kept_back is not None:
            self._kept_back += credit
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
        """A pre-settled message cannot be refused: its link ends, unless it brings the answers of others."""
        if not (self.context.answer and self._link.rejects):
            self._router.fail(error)

    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """The node first; what waits for it goes back."""
        self.error = error
        for message in self._waiting:
            message.give_back()  # the node may need the room for what it was handed
        if was_open:
            self.handler.on_detach(error)
        self._router.forget(self)
        for message in self._waiting:
            if error is None:
                self._release(message.delivery, message.settled)
            else:
                self._router.unreachable(message.delivery, error, message.settled, answer=self.context.answer)
        self._waiting.clear()

    # -- what the router does

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
        """It was not sent on; who can hear that may send it again."""
        if settled:
            self.drop(delivery)
        else:
            self.settle(delivery, RELEASED)
        self._done -= 1  # no sign that somebody takes messages

    def _give(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        self.granted -= 1
        if may_be_annotated(data):  # the link around it understands what some destination does
            data = only(data, self.understands)
        self.handler.on_transfer(delivery, data, settled)

    def close(self) -> None:
        """The link around it has ended; what came settled waits on where it may be taken.

        Nobody could send it again.
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
        """It goes nowhere, and its sender cannot hear that any more."""
        if settled:
            self._link.drop(delivery)

    def perhaps_done(self) -> None:
        """End where the link around it has ended, and nothing that it left waits any more."""
        if self._router.ended and not self._waiting:
            self.end(None)

    @property
    def idle(self) -> bool:
        return not self.busy

    # -- what `fair_share` does

    @property
    def waiting(self) -> int:
        """Messages that wait for credit."""
        return len(self._waiting)

    @property
    def handed(self) -> int:
        """Messages that the node has and gives no outcome to."""
        return self.busy - len(self._waiting)

    def tidy(self, now_ms: int) -> int:
        """Release what waits for nothing any more; returns how many have got their outcome since the look before."""
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
        """Release what waits beyond `room`, the newest first; returns how many those are."""
        over = max(len(self._waiting) - room, 0)
        for _ in range(over):
            self._release_held(self._waiting.pop())
        self.perhaps_done()
        return over

    def pause(self, paused: bool) -> None:
        """Hand on no more, or go on."""
        if paused and self._kept_back is None:
            self._kept_back, self.granted = self.granted, 0
        elif not paused and self._kept_back is not None:
            kept, self._kept_back = self._kept_back, None
            self.grant(kept)


class MessageRouter(Incoming):
    """The handler of a link whose messages go to many nodes; `aim` says where, or raises why not."""

    ended = outlived = False
    """The link has ended; what came settled may wait on then: somebody looks after it."""

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
        """A destination has messages under way, after it had none."""

    def opened(self, route: DestinationLink) -> None:
        """A destination has taken its link."""

    def _open(self, destination: Destination, kind: type[DestinationLink] = DestinationLink) -> DestinationLink:
        self._make_room()
        route = kind(self, self.link, destination.key)
        destination.attach(route)
        if route.error is not None:
            raise route.error
        self.opened(route)
        self._routes[destination.key] = route
        return route

    def _make_room(self) -> None:
        if len(self._routes) >= ROUTES:
            route = dispensable(self._routes.values())
            if route is None:
                raise AmqpError(
                    RESOURCE_LIMIT_EXCEEDED, f"one link can have at most {ROUTES} destinations at a time"
                )
            del self._routes[route.key]
            route.end(None)

    def wait(self, wait: PendingDestination | CookieNotLoaded, delivery: Delivery, data: bytes, settled: bool) -> None:
        """See `response_router`; nothing waits here."""
        raise wait

    def give_back(self) -> None:
        """The link is about to end: what waits for a destination goes back, while its sender can hear that."""
        for route in list(self._routes.values()):
            route.detach(None)

    def on_detach(self, error: AmqpError | None) -> None:
        self.ended = True
        for route in list(self._routes.values()):
            route.close()

    def policy_changed(self, verdict: PolicyVerdict) -> None:
        """A reload: destinations that are no longer allowed go, with what waits for them."""
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
        """Its destination does not take it.

        A settled `answer` is dropped: that its requester has gone is no fault of the responder, whose link brings
        the answers of others, too. The address it was sent to is linkable (row AT-2.2.2-14).
        """
        if not (settled and answer):
            self.refuse(delivery, error, settled)
            return
        self.link.message_refused(error)
        self.link.drop(delivery)
        self.passed()

    def fail(self, error: AmqpError) -> None:
        self.link.fail(error)

    def passed(self) -> None:
        """A delivery has its outcome: its credit goes back to the sender, in lots."""
        self._owed += 1
        if self._owed >= WINDOW // 4 or not self.link.granted:
            self.link.grant(self._owed)
            self._owed = 0
