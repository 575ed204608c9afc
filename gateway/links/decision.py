"""The policy's decision about a link, and its revalidation after a reload."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from gateway.errors import DETACH_FORCED, AmqpError
from gateway.links.link_context import link_context
from gateway.principal import Principal
from policies.rules import RelayRoute, Route

if TYPE_CHECKING:
    from gateway.links.link_context import LinkContext
    from policies.model.scopes.access import Action


@dataclass(frozen=True, slots=True)
class RouteDecision:
    """The policy's decision about a link; a reload keeps links whose decision is equal."""

    scope: str
    principal: Principal
    action: Action
    address: str
    rule: str
    routes: tuple[Route, ...]

    @property
    def node_scope(self) -> str:
        """The scope of the node, which the last route leads to."""
        before = self.routes[-2] if len(self.routes) > 1 else None
        return before.scope if isinstance(before, RelayRoute) and before.scope is not None else self.scope


class DecidedLink(Protocol):
    """What a reload uses of a link."""

    context: LinkContext
    decision: RouteDecision | None


def places(routes: tuple[Route, ...]) -> tuple[Route, ...]:
    """The routes without their settings of response routing."""
    return tuple(replace(each, replies="auto", uses=None) if isinstance(each, RelayRoute) else each for each in routes)


def differs(before: RouteDecision, now: RouteDecision) -> AmqpError | None:
    """Why a link cannot continue under a new decision (reload); None: it can."""
    if places(now.routes) == places(before.routes) and (now.rule, now.action) == (before.rule, before.action):
        return None
    return AmqpError(DETACH_FORCED, "the rule for this address has changed; attach again")


def follow_response_routing(link: DecidedLink, before: Route, now: RouteDecision) -> AmqpError | None:
    """Apply changed response routing to a link that stays; an error if responses were switched on or off.

    Then its announced capabilities would not be true any more (RA-2.2-4).
    """
    after, own = now.routes[0], link.context
    link.decision = now
    if own is None or not (isinstance(before, RelayRoute) and isinstance(after, RelayRoute)):
        return None  # our link of a `pull`: the sender that the node sees has the context
    if own.replies != before.replies:
        return None
    if before.replies != after.replies and "none" in (before.replies, after.replies):
        return AmqpError(DETACH_FORCED, "the response routing of this address has changed; attach again")
    link.context = link_context(own.scope, after.replies, own.announces, own.pair, own.answer, after.uses)
    return None
