"""The base of links whose other end is the gateway itself and no peer (`gateway.links.link`).

Such links carry messages pulled from a queue, the two ends of a bridge, and the messages of a link for each of its
destinations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from gateway.amqp.link.handlers import ENDED, LinkHandler
from gateway.amqp.message.hop import ROUTING
from gateway.errors import INTERNAL_ERROR, AmqpError, Fault
from gateway.principal import Requester

if TYPE_CHECKING:
    from gateway.filters.parse.filter_set import Rules
    from gateway.links.decision import RouteDecision
    from gateway.links.link import LinkCounter, PolicyVerdict
    from gateway.links.link_context import LinkContext


class NothingUnsettled:
    """The unsettled deliveries of a link that has none of its own."""

    contexts: Final = ()

    def __len__(self) -> int:
        return 0


HandlerT = TypeVar("HandlerT", bound=LinkHandler)


class InternalLink(ABC, Generic[HandlerT]):
    """An internal link: a node accepts or refuses it, the policy applies to it, and it ends once."""

    handler: HandlerT
    """The handler of the node, once it has accepted the link."""

    fence: int = 0
    offset_group: str | None = None
    draining = presettled = acquiring = False
    behind: str | None = None
    filter_rules: Rules | None = None

    def __init__(self, context: LinkContext, requester: Requester) -> None:
        """`requester`: the requester of its messages."""
        self.context = context
        self.requester = requester
        self.decision: RouteDecision | None = None
        self.counter: LinkCounter | None = None
        self.leaving: Callable[[Any, Callable[[], None]], bytes | None] | None = None
        self.open = False
        self.gone = False
        self.max_message_size = 0
        self.understands = ROUTING
        """The names of the delivery annotations that the node gets."""

    def accepted(self, handler: HandlerT) -> bool:
        """The node accepts the link; False: it has ended already, and the handler was told so."""
        if self.gone:
            handler.on_detach(None)
            return False
        self.handler = handler
        self.open = True
        return True

    def instrumented(self, handler: HandlerT) -> HandlerT:
        """The node's handler, with the counting of the journal around it."""
        return handler if self.counter is None else self.counter.instrument(handler)

    def refuse(self, error: AmqpError) -> None:
        """The node refuses the link."""
        self.end(error.of(self.behind))

    def detach(self, error: AmqpError | None = None) -> None:
        """The node ends the link."""
        self.end(None if error is None else error.of(self.behind))

    def attempt(self, step: Callable[[], None]) -> None:
        """As `LinkState.attempt`: if the step fails, end this link and raise the error."""
        try:
            step()
        except Exception:
            self.end(AmqpError(INTERNAL_ERROR, "the gateway cannot continue this link", fault=Fault.GATEWAY))
            raise

    def withdraw(self, error: AmqpError) -> None:
        """As `Link.withdraw`; the outer link settles its messages."""
        self.end(error.of(self.behind))

    def policy_changed(self, verdict: PolicyVerdict) -> None:
        """After a reload: end the link if the policy no longer allows it."""
        if (error := verdict(self)) is not None:
            self.end(error)

    def end(self, error: AmqpError | None) -> None:
        """End the link, once, for either side."""
        if self.gone:
            return
        self.gone = True
        if self.counter is not None:
            self.counter.left(self)
        was_open, self.open = self.open, False
        self.ended(error, was_open=was_open)
        if was_open:  # nothing comes on it any more: the node's handler has this link
            self.handler = cast("HandlerT", ENDED)
        self.leaving = None

    @abstractmethod
    def ended(self, error: AmqpError | None, *, was_open: bool) -> None:
        """Notify the node, if it had accepted the link, and the other end."""
