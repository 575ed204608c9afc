"""A link around another one, for a node that shall see most of it unchanged (`gateway.nodes.link`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from gateway.amqp.engine.proton_data import TerminusFields
    from gateway.amqp.link.outcomes import Outcome
    from gateway.errors import AmqpError
    from gateway.filters.parse.filter_set import Rules
    from gateway.nodes.decision import RouteDecision
    from gateway.nodes.link import Delivery, IncomingLink, LinkCounter, LinkEngine
    from gateway.principal import Requester
    from gateway.routing.link_context import LinkContext


class WrappedIncomingLink:
    """Passes on everything of an incoming link but `accept`, which a subclass has."""

    incoming: Final = True

    def __init__(self, link: IncomingLink) -> None:
        self._link: Final = link
        self.accept_all: Final = getattr(link, "accept_all", None)
        """Accepts several deliveries at once; only links of peers have it."""

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

    @property
    def rejects(self) -> bool:
        return self._link.rejects

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

    @property
    def granted(self) -> int:
        return self._link.granted

    def refuse(self, error: AmqpError) -> None:
        self._link.refuse(error)

    def detach(self, error: AmqpError | None = None) -> None:
        self._link.detach(error)

    def withdraw(self, error: AmqpError) -> None:
        self._link.withdraw(error)

    # -- messages

    def grant(self, credit: int) -> None:
        self._link.grant(credit)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        self._link.settle(delivery, outcome)

    def drop(self, delivery: Delivery) -> None:
        self._link.drop(delivery)

    def fail(self, error: AmqpError) -> None:
        self._link.fail(error)

    def tag(self, delivery: Delivery) -> bytes:
        return self._link.tag(delivery)

    def message_refused(self, error: AmqpError) -> None:
        self._link.message_refused(error)
