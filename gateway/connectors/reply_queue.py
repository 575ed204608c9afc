"""The address for responses of the container behind a connector, and our link that receives there (RA 2.3, 2.5.5).

The container can send to an address of this gateway only if it is a client of it. Otherwise the connector has a
response address at the container itself: a dynamic node, which changes with each connection, or a queue with a fixed
name, which outlives connections and gateways. Responses are routed to their requesters by cookie or correlation-id.
"""

from __future__ import annotations

from asyncio import TimerHandle
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Final, Protocol

from gateway.amqp.link.outcomes import Rejected
from gateway.amqp.proton.proton_data import AttachReply
from gateway.connectors.reply_states import TRANSITIONS, ReplyAction, ReplyEvent, ReplyState
from gateway.errors import NOT_FOUND, NOT_IMPLEMENTED, AmqpError
from gateway.links.link import Delivery, IncomingLink
from gateway.links.link_context import link_context
from gateway.nodes.anonymous_terminus import response_destination, response_window
from gateway.routing.destination_link import Destination
from gateway.routing.response_router import ResponseRouter

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link
    from gateway.nodes.base import Resolver

DYNAMIC: Final = "dynamic"
GATEWAY: Final = "gateway"
_PAUSE: Final = 1.0
"""Seconds until a response link that was refused or lost is attached again."""
_numbers: Final = count(1)
Then = Callable[[AmqpError | None], None]


class ReplyAddressOwner(Protocol):
    """What the reply address uses of its connector."""

    @property
    def name(self) -> str: ...
    @property
    def responder(self) -> str:
        """The name of the responder for `response_rate`."""
    def later(self, seconds: float, call: Callable[[], None]) -> TimerHandle: ...
    def attempt(self, step: Callable[[], object]) -> None:
        """Call `step`; an error is logged and not raised."""
    def reply_address_changed(self) -> None: ...
    def reply_address_failed(self, error: AmqpError) -> None: ...


class ConnectorReplyAddress:
    """The address for responses of the container behind a connector; `reply_states` has its transitions."""

    def __init__(
        self,
        owner: ReplyAddressOwner,
        address_mode: str,
        scope: Callable[[], Resolver],
        *,
        correlation: bool = True,
    ) -> None:
        """`address_mode`: `dynamic`, `gateway` or the name of a queue.

        `correlation`: whether requests that are answered there have a new correlation-id, too.
        """
        self._owner: Final = owner
        self._address_mode: Final = address_mode
        self.name: Final = owner.name
        self.correlation: Final = correlation
        self.scope: Final = scope
        self.address: str | None = None
        """The address at the container; None: it uses `$replies.<scope>` of this gateway."""
        self._engine: Engine | None = None
        self._state = ReplyState.DISCONNECTED
        self._needed = address_mode not in (DYNAMIC, GATEWAY)
        """Whether our link is needed on each connection: a queue may hold responses to earlier requests."""
        self._waiting: list[Then] = []

    def _after(self, event: ReplyEvent) -> ReplyAction:
        """Take the transition for an event; returns the action."""
        self._state, action = TRANSITIONS[self._state, event]
        if action is ReplyAction.RESET:
            self._waiting.clear()
        elif action is ReplyAction.ATTACH:
            self._attach()
        elif action in (ReplyAction.FAIL, ReplyAction.PAUSE):
            self._owner.later(_PAUSE, self._retry)
        return action

    def _retry(self) -> None:
        self._after(ReplyEvent.RETRY)

    # -- the connection

    def opened(self, engine: Engine) -> None:
        """The connector is connected; a dynamic node is created when it is needed."""
        self._engine = engine
        self._after(ReplyEvent.CONNECTED)
        if self._address_mode == GATEWAY:
            self._after(ReplyEvent.OWN_ADDRESS)
        elif self._needed:
            self._after(ReplyEvent.NEEDED)

    def closed(self) -> None:
        """The connection was lost; waiting requests ask again on the next one."""
        self._engine = None
        self._after(ReplyEvent.DISCONNECTED)

    def when_known(self, then: Then) -> None:
        """Call `then` when the address is known, or with the reason why there is none."""
        self._needed = True
        if self._after(ReplyEvent.NEEDED) is ReplyAction.ANSWER:
            then(None)
        else:
            self._waiting.append(then)

    def _attach(self) -> None:
        engine = self._engine
        if engine is None or engine.closed:
            return
        link = engine.attach(f"responses-{next(_numbers)}", incoming=True)
        dynamic = self._address_mode == DYNAMIC
        requested = AttachReply(
            address=None if dynamic else self._address_mode,
            dynamic=dynamic,
            capabilities=("temporary-queue",) if dynamic else (),  # as JMS brokers expect it
            max_message_size=engine.config.max_message_size,
            stays=True,
        )
        link.request(_ResponseHandler(link, self), requested)

    # -- the link

    def attached(self, link: Link) -> None:
        """The container has answered our attach."""
        address = link.source.address
        if self._address_mode == DYNAMIC and address is None:
            link.detach()
            self.refused(AmqpError(NOT_IMPLEMENTED, "no address for a dynamic source"))
            return
        link.context = link_context(self.scope().name)
        self.address = address if self._address_mode == DYNAMIC else self._address_mode
        link.grant(response_window(self.scope()))
        self._after(ReplyEvent.ATTACHED)
        self._notify(None)
        self._owner.reply_address_changed()

    def refused(self, error: AmqpError) -> None:
        """The attach was refused: without dynamic nodes use an address of the gateway; a queue may be created later."""
        dynamic = self._address_mode == DYNAMIC
        if self._after(ReplyEvent.UNSUPPORTED if dynamic else ReplyEvent.REFUSED) is ReplyAction.IGNORE:
            return
        self._owner.reply_address_failed(error)
        if dynamic:
            self.address = None
        self._notify(None if dynamic else error)

    def _notify(self, error: AmqpError | None) -> None:
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            self._owner.attempt(partial(then, error))

    def lost(self, link: IncomingLink) -> None:
        """The container has ended the link: requests use the old address until there is a new one."""
        if link.engine is self._engine and not link.engine.closed:
            self._after(ReplyEvent.LINK_LOST)

    def destination_of(self, link: IncomingLink, data: bytes) -> Destination:
        """The destination of a response; raises AmqpError if it is unknown."""
        try:
            scope = self.scope()
        except KeyError:  # a reload has removed the scope while the response waited
            raise AmqpError(NOT_FOUND, "the requester is gone") from None
        restored = scope.context.transforms.restore_at_connector(scope.name, data)
        return response_destination(scope, self._owner.responder)(restored)


class _ResponseHandler(ResponseRouter):
    """The handler of the response link: it rejects messages that are no responses of ours, and stays attached."""

    def __init__(self, link: Link, reply_address: ConnectorReplyAddress) -> None:
        scope = reply_address.scope()
        super().__init__(link, reply_address.destination_of, scope.context.waits, window=response_window(scope))
        self._reply_address: Final = reply_address

    def on_attached(self, link: Link) -> None:
        self._reply_address.attached(link)

    def on_refused(self, error: AmqpError) -> None:
        self._reply_address.refused(error)

    def on_drained(self) -> None:
        """Nothing: this link is never drained."""

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        self._reply_address.lost(self.link)

    def refuse(self, delivery: Delivery, error: AmqpError, settled: bool) -> None:
        self.link.message_refused(error)
        if settled:
            self.link.drop(delivery)
        else:
            self.link.settle(delivery, Rejected(error))
        self.passed()

    def fail(self, error: AmqpError) -> None:
        """Nothing: a rejected message must not end the link."""
