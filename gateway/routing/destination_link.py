"""The link to one destination of a link whose messages go to many nodes (`message_router`)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, NamedTuple, Protocol

from gateway.amqp.link.handlers import Incoming
from gateway.amqp.link.outcomes import RELEASED, Outcome, from_node
from gateway.amqp.link.transactions import PostedMessage
from gateway.amqp.message.hop import ROUTING, may_be_annotated, only
from gateway.errors import RESOURCE_LIMIT_EXCEEDED, AmqpError
from gateway.links.internal_link import InternalLink
from gateway.links.link import Delivery, IncomingLink
from gateway.routing.announcements import RequiredCapabilities
from gateway.routing.opening_posts import OpeningPosts
from gateway.routing.requester_limits import BESIDE, DETACHED, HeldMessage, RequesterLimit

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


class DestinationRouter(Protocol):
    """What the link to a destination uses of its router (`message_router.MessageRouter`)."""

    @property
    def demands(self) -> RequiredCapabilities: ...
    @property
    def ended(self) -> bool: ...
    @property
    def outlived(self) -> bool: ...
    def busy(self) -> None: ...
    def passed(self) -> None: ...
    def fail(self, error: AmqpError) -> None: ...
    def forget(self, route: DestinationLink) -> None: ...
    def unreachable(self, delivery: Delivery, error: AmqpError, settled: bool, *, answer: bool) -> None: ...


class DestinationLink(InternalLink[Incoming]):
    """A link to one destination, as its node sees it (`gateway.links.link.IncomingLink`)."""

    incoming: Final = True

    def __init__(self, router: DestinationRouter, link: IncomingLink, key: tuple[str, str, str]) -> None:
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
        self._posts: Final = OpeningPosts()

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
            self.end(missing)
        if self.accepted(self.instrumented(handler)):
            self._attended = handler.attended
            if self._posts:
                self._posts.answered(self._give_post)
                self.perhaps_done()

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
        self._link.settle(delivery, from_node(outcome, self.behind))
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
        gone = error or AmqpError(RESOURCE_LIMIT_EXCEEDED, "the link has too many destinations")
        self._posts.answered(lambda post, _: post.refuse(gone))
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

    def post(self, post: PostedMessage, data: bytes) -> None:
        """Pass on a message in a transaction, as soon as the node has answered the attach.

        It stays a part of its transaction if its link ends meanwhile, or has ended before its turn came.
        """
        if self.open:
            self._give_post(post, data)
            self.perhaps_done()
        else:
            self._posts.add(post, data, self.perhaps_done)

    def _give_post(self, post: PostedMessage, data: bytes) -> None:
        post.behind = self.behind
        try:
            self.handler.on_post(post, only(data, self.understands) if may_be_annotated(data) else data)
        except AmqpError as error:
            post.refuse(error)

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
        if self._router.ended and not self._waiting and not self._posts:
            self.end(None)
        elif self._router.ended and self.open:
            self.handler.peer_left()

    @property
    def idle(self) -> bool:
        return not self.busy and not self._posts

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
