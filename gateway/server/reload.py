"""Which links a new policy still allows (reload): the old decision against the same question asked again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.errors import CONNECTION_FORCED, DETACH_FORCED, INTERNAL_ERROR, AmqpError, Fault
from gateway.nodes.decision import RouteDecision
from gateway.nodes.resolver import Scope
from policies.rules import KafkaRoute, RelayRoute

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.nodes.decision import DecidedLink
    from gateway.observability.link_events import LinkEvents


class Replaced(NamedTuple):
    """Backends that reloads have taken away or made anew: clusters by name, connectors by scope and name."""

    clusters: set[str]
    connectors: set[tuple[str, str]]


class LinkRevalidator:
    """Knows the scopes as they are now, and what has been replaced below them."""

    def __init__(self, scopes: Mapping[str, Scope], replaced: Replaced, report: LinkEvents) -> None:
        self._scopes: Final = scopes
        self._replaced: Final = replaced
        self._report: Final = report

    def each(self, links: Iterable[Link], far: Iterable[Link]) -> Iterator[bool]:
        """Withdraw the links of peers that may not stay, with the reason; yields for each link whether it had to go.

        An attach that still waits for its answer is refused: it was allowed under the old rules.

        Links of ours at containers (`far`) follow their near halves: only what they remember is forgotten. Links may
        come and go between two steps: who attaches meanwhile was asked under the new rules.
        """
        for link in far:
            if not link.gone:
                self._why(link)
            yield False
        for link in links:
            error = None if link.gone else self._why(link)
            if error is None or not (link.open or link.waits):
                yield False
                continue
            link.withdraw(error)
            yield True

    def _why(self, link: Link) -> AmqpError | None:
        """As `link`; a link that a fault of ours keeps from being judged has to go, and the others are judged."""
        try:
            return self.link(link)
        except Exception as error:
            self._report.task_failed("judge", error)
            text = "the gateway could not check this link under the new policy; attach again"
            return AmqpError(INTERNAL_ERROR, text, fault=Fault.GATEWAY)

    def link(self, link: Link) -> AmqpError | None:
        """Why a link may not stay; None: it may. A handler with links of its own asks about those first."""
        scope = self._scopes.get(link.scope)
        if scope is None:
            return AmqpError(CONNECTION_FORCED, "the scope was removed from the policy")
        if link.handler is not None:  # it has been answered
            link.handler.policy_changed(self.decided)
        return scope.unnamed(link) or self.decided(link)

    def decided(self, link: DecidedLink) -> AmqpError | None:
        """The same for what the policy had decided; for what no rule decides there is no reason to go."""
        node = link.decision
        if not isinstance(node, RouteDecision):
            return None
        scope = self._scopes.get(node.scope)
        if scope is None:
            return AmqpError(CONNECTION_FORCED, "the scope was removed from the policy")
        return scope.revalidate(link) or self._backend(node)

    def _backend(self, node: RouteDecision) -> AmqpError | None:
        last = node.routes[-1]
        if isinstance(last, KafkaRoute) and last.cluster in self._replaced.clusters:
            return AmqpError(DETACH_FORCED, "the cluster behind this address has changed; attach again")
        if isinstance(last, RelayRoute) and (_home(node), last.connector) in self._replaced.connectors:
            return AmqpError(DETACH_FORCED, "the connector behind this address has changed; attach again")
        return None


def _home(node: RouteDecision) -> str:
    """The scope of the last route: where the relay before it leads."""
    before = node.routes[-2] if len(node.routes) > 1 else None
    return before.scope if isinstance(before, RelayRoute) and before.scope is not None else node.scope
