"""Where the container behind a connector sends its responses: a link of ours that receives there (RA 2.3, 2.5.5).

That container cannot reach an address of this gateway unless it is one of its clients. So a connector has a
response address at the container itself: a dynamic node, which changes with each connection, or a queue with a
fixed name, which outlives connections and gateways. What comes there goes home by its cookie or its correlation-id.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, Final, Protocol

from gateway.amqp.engine.proton_data import AttachReply
from gateway.amqp.link.outcomes import Rejected
from gateway.errors import NOT_FOUND, NOT_IMPLEMENTED, AmqpError
from gateway.nodes.link import Delivery, IncomingLink
from gateway.routing.anonymous_terminus import homing, window
from gateway.routing.link_context import link_context
from gateway.routing.message_router import Destination
from gateway.routing.response_router import ResponseRouter

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link
    from gateway.nodes.base import Resolver

DYNAMIC: Final = "dynamic"
GATEWAY: Final = "gateway"
_RESPONSE_ANNOTATIONS: Final = "RESPONSE_ANNOTATIONS_V1_0"
_AGAIN: Final = 1.0
"""Seconds until a response link that was refused or lost is asked for anew."""
_numbers: Final = count(1)
Then = Callable[[AmqpError | None], None]


class ReplyAddressOwner(Protocol):
    """The connector, as far as this needs it."""

    @property
    def name(self) -> str: ...
    @property
    def responder(self) -> str: ...
    def later(self, seconds: float, call: Callable[[], None]) -> Any: ...
    def attempt(self, step: Callable[[], object]) -> None: ...
    def home_changed(self) -> None: ...
    def home_failed(self, error: AmqpError) -> None: ...


class ConnectorReplyAddress:
    """A connector's response address; `wish` is `dynamic`, `gateway` or the name of a queue.

    `correlation`: whether requests that are answered there have a new correlation-id, too.
    """

    def __init__(
        self,
        owner: ReplyAddressOwner,
        wish: str,
        annotations: str,
        scope: Callable[[], Resolver],
        *,
        correlation: bool = True,
    ) -> None:
        self._owner: Final = owner
        self._wish: Final = wish
        self._annotations: Final = annotations
        self.name: Final = owner.name
        self.correlation: Final = correlation
        self.scope: Final = scope
        self.address: str | None = None
        """The address at the container; None: it reaches `$replies.<scope>` of this gateway."""
        self.annotates = annotations == "trust"
        """Whether targets there are believed when they announce `response-address-supported` (RA-2.1-4)."""
        self._engine: Engine | None = None
        self._settled = False
        self._wanted = wish not in (DYNAMIC, GATEWAY)
        self._waiting: list[Then] = []

    # -- the connection

    def opened(self, engine: Engine) -> None:
        """A queue may hold responses to what was asked before; a dynamic node is made when it is needed."""
        if self._annotations == "offered":
            self.annotates = _RESPONSE_ANNOTATIONS in engine.offered
        self._engine, self._settled = engine, self._wish == GATEWAY
        self._waiting.clear()
        if self._wanted:
            self._open()

    def closed(self) -> None:
        """Whoever waits asks again on the next connection."""
        self._engine, self._settled = None, False
        self._waiting.clear()

    def ready(self, then: Then) -> None:
        """Call `then` when the address is known, or with the reason why there is none."""
        if self._settled:
            then(None)
            return
        self._waiting.append(then)
        if not self._wanted:
            self._wanted = True
            self._open()

    def _open(self) -> None:
        engine = self._engine
        if engine is None or engine.closed:
            return
        link = engine.attach(f"responses-{next(_numbers)}", incoming=True)
        dynamic = self._wish == DYNAMIC
        granted = AttachReply(
            address=None if dynamic else self._wish,
            dynamic=dynamic,
            capabilities=("temporary-queue",) if dynamic else (),  # how JMS brokers know what is meant
            max_message_size=engine.config.max_message_size,
        )
        link.request(_ResponseHandler(link, self), granted)

    # -- the link

    def attached(self, link: Link) -> None:
        address = link.source.address
        if self._wish == DYNAMIC and address is None:
            link.detach()
            self.refused(AmqpError(NOT_IMPLEMENTED, "no address for a dynamic source"))
            return
        link.context = link_context(self.scope().name)
        self.address = address if self._wish == DYNAMIC else self._wish
        link.grant(window(self.scope()))
        self._tell(None)
        self._owner.home_changed()

    def refused(self, error: AmqpError) -> None:
        """Without dynamic nodes there the gateway's own address is what is left; a queue may be there later."""
        self._owner.home_failed(error)
        if self._wish == DYNAMIC:
            self.address = None
            self._tell(None)
        else:
            self._tell(error)
            self._owner.later(_AGAIN, self._open)

    def _tell(self, error: AmqpError | None) -> None:
        self._settled = error is None
        waiting, self._waiting = self._waiting, []
        for then in waiting:
            self._owner.attempt(partial(then, error))

    def lost(self, link: IncomingLink) -> None:
        """The container took the link away: requests go on with the old address until there is a new one."""
        if link.engine is self._engine and not link.engine.closed:
            self._owner.later(_AGAIN, self._open)

    def aim(self, link: IncomingLink, data: bytes) -> Destination:
        """Where a response goes."""
        try:
            scope = self.scope()
        except KeyError:  # a reload has taken it away while this response waited
            raise AmqpError(NOT_FOUND, "the requester is gone") from None
        return homing(scope, self._owner.responder)(scope.world.crossings.homecome(scope.name, data))


class _ResponseHandler(ResponseRouter):
    """The handler of the response link: what is no response of ours is rejected there, and the link stays."""

    def __init__(self, link: Link, home: ConnectorReplyAddress) -> None:
        scope = home.scope()
        super().__init__(link, home.aim, scope.world.waits, window=window(scope))
        self._home: Final = home

    def on_attached(self, link: Link) -> None:
        self._home.attached(link)

    def on_refused(self, error: AmqpError) -> None:
        self._home.refused(error)

    def on_drained(self) -> None:
        """We never drain it."""

    def on_detach(self, error: AmqpError | None) -> None:
        super().on_detach(error)
        self._home.lost(self.link)

    def refuse(self, delivery: Delivery, error: AmqpError, settled: bool) -> None:
        self.link.message_refused(error)
        if settled:
            self.link.drop(delivery)
        else:
            self.link.settle(delivery, Rejected(error))
        self.passed()

    def fail(self, error: AmqpError) -> None:
        """One bad message must not cost everybody the response address."""
