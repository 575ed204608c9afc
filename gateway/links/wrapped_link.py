"""A link around another one, for a node that shall see most of it unchanged (`gateway.links.link`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar

from gateway.links.link import IncomingLink, NodeLink, OutgoingLink
from gateway.links.wrapped_origin import WrappedOrigin

if TYPE_CHECKING:
    from gateway.amqp.link.handlers import Incoming, Outgoing
    from gateway.amqp.link.outcomes import Outcome
    from gateway.amqp.link.state import DetachKind
    from gateway.amqp.proton.proton_data import TerminusFields
    from gateway.errors import AmqpError
    from gateway.filters.parse.filter_set import Rules
    from gateway.links.decision import RouteDecision
    from gateway.links.link import (
        Delivery,
        LinkCounter,
        LinkEngine,
        OutgoingMessages,
        SendContext,
        TopicTransform,
        Unsettled,
    )
    from gateway.links.link_context import LinkContext
    from gateway.principal import Requester


LinkT = TypeVar("LinkT", bound=NodeLink)
AcceptAll: TypeAlias = "Callable[[list[Delivery]], None]"


class WrappedLink(Generic[LinkT]):
    """Passes on what links of both directions have.

    A subclass puts a handler around the node's (`around`), or tells the peer of errors in other words (`told`).
    """

    def __init__(self, link: LinkT) -> None:
        self._link: Final = link

    def around(self, handler: Incoming | Outgoing) -> Incoming | Outgoing:
        """The handler that gets the link's events, for that of the node."""
        return handler

    def accept(self, handler: Incoming | Outgoing, **more: Any) -> None:
        self._link.accept(self.around(handler), **more)

    # -- what the resolver and the journal decide for it

    @property
    def context(self) -> LinkContext:
        return self._link.context

    @context.setter
    def context(self, context: LinkContext) -> None:
        self._link.context = context

    @property
    def decision(self) -> RouteDecision | None:
        return self._link.decision

    @decision.setter
    def decision(self, decision: RouteDecision | None) -> None:
        self._link.decision = decision

    @property
    def counter(self) -> LinkCounter | None:
        return self._link.counter

    @counter.setter
    def counter(self, counter: LinkCounter | None) -> None:
        self._link.counter = counter

    @property
    def behind(self) -> str | None:
        return self._link.behind

    @behind.setter
    def behind(self, behind: str | None) -> None:
        self._link.behind = behind

    # -- the attach

    @property
    def name(self) -> str:
        return self._link.name

    @property
    def engine(self) -> LinkEngine:
        return self._link.engine

    @property
    def scope(self) -> str:
        return self._link.scope

    @property
    def user(self) -> str:
        return self._link.user

    @property
    def requester(self) -> Requester:
        return self._link.requester

    @property
    def address(self) -> str | None:
        return self._link.address

    @property
    def source(self) -> TerminusFields:
        return self._link.source

    @property
    def target(self) -> TerminusFields:
        return self._link.target

    @property
    def properties(self) -> Mapping[Any, Any]:
        return self._link.properties

    @property
    def fence(self) -> int:
        return self._link.fence

    @property
    def offset_group(self) -> str | None:
        return self._link.offset_group

    @property
    def filter_rules(self) -> Rules | None:
        return self._link.filter_rules

    @property
    def presettled(self) -> bool:
        return self._link.presettled

    # -- its state

    @property
    def open(self) -> bool:
        return self._link.open

    @property
    def gone(self) -> bool:
        return self._link.gone

    @property
    def draining(self) -> bool:
        return self._link.draining

    # -- its errors

    def told(self, error: AmqpError) -> AmqpError:
        """What the peer is told, for an error of the node."""
        return error

    def refuse(self, error: AmqpError) -> None:
        self._link.refuse(self.told(error))

    def detach(self, error: AmqpError | None = None) -> None:
        self._link.detach(None if error is None else self.told(error))

    def withdraw(self, error: AmqpError) -> None:
        self._link.withdraw(self.told(error))


class WrappedIncomingLink(WrappedLink[IncomingLink], WrappedOrigin):
    """Passes on everything of an incoming link."""

    incoming: Final = True

    def __init__(self, link: IncomingLink) -> None:
        super().__init__(link)
        self.accept_all: AcceptAll | None = getattr(link, "accept_all", None)
        """Accepts several deliveries at once; only links of peers have it."""

    @property
    def together(self) -> int | None:
        """While messages are handed over that belong together, a number that is theirs; few links have it.

        A log writes those of them that have neither key nor partition to one partition.
        """
        return getattr(self._link, "together", None)

    @property
    def granted(self) -> int:
        return self._link.granted

    def grant(self, credit: int) -> None:
        self._link.grant(credit)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        self._link.settle(delivery, outcome)


class WrappedOutgoingLink(WrappedLink[OutgoingLink]):
    """Passes on everything of an outgoing link."""

    incoming: Final = False

    @property
    def leaving(self) -> TopicTransform | None:
        return self._link.leaving

    @leaving.setter
    def leaving(self, leaving: TopicTransform | None) -> None:
        self._link.leaving = leaving

    @property
    def announcement_counts(self) -> bool:
        return self._link.announcement_counts

    @property
    def credit(self) -> int:
        return self._link.credit

    @property
    def most(self) -> int:
        return self._link.most

    @property
    def window(self) -> int:
        return self._link.window

    @property
    def acquiring(self) -> bool:
        return self._link.acquiring

    @property
    def left(self) -> DetachKind | None:
        return self._link.left

    @property
    def unsettled(self) -> Unsettled:
        return self._link.unsettled

    @property
    def unsettled_bytes(self) -> int:
        return self._link.unsettled_bytes

    @property
    def keeps_too_much(self) -> bool:
        return self._link.keeps_too_much

    def send(self, data: bytes, context: SendContext, settled: bool = False) -> None:
        self._link.send(data, context, settled)

    def send_all(self, messages: OutgoingMessages) -> None:
        self._link.send_all(messages)

    def drained(self) -> None:
        self._link.drained()

    def keep(self, size: int) -> None:
        self._link.keep(size)

    def attempt(self, step: Callable[[], None]) -> None:
        self._link.attempt(step)

    def take_unsettled(self) -> Sequence[SendContext]:
        return self._link.take_unsettled()
