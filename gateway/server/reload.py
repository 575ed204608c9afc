"""Decides which links stay after a reload: the decision at attach is compared with the decision of the new policy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.errors import CONNECTION_FORCED, DETACH_FORCED, INTERNAL_ERROR, AmqpError, Fault
from gateway.links.decision import RouteDecision
from gateway.nodes.scope import Scope
from policies.rules import KafkaRoute, RelayRoute

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.links.decision import DecidedLink
    from gateway.observability.link_events import LinkEvents


class Replaced(NamedTuple):
    """Backends that a reload has removed or replaced: clusters by name, connectors by scope and name."""

    clusters: set[str]
    connectors: set[tuple[str, str]]


class LinkRevalidator:
    """Checks links against the scopes of the new policy and the backends that were replaced."""

    def __init__(self, scopes: Mapping[str, Scope], replaced: Replaced, report: LinkEvents) -> None:
        self._scopes: Final = scopes
        self._replaced: Final = replaced
        self._report: Final = report

    def each(self, links: Iterable[Link], remote: Iterable[Link]) -> Iterator[bool]:
        """Withdraw the links that may not stay, with the reason; yields for each link whether it was withdrawn.

        An attach that has not been answered yet is refused: it was allowed under the old rules.

        Links of ours at other containers (`remote`) follow the local links that they belong to; they only forget cached
        decisions. Links may come and go between two steps; those that attach meanwhile are decided by the new rules.
        """
        for link in remote:
            if not link.gone:
                self._checked(link)
            yield False
        for link in links:
            error = None if link.gone else self._checked(link)
            if error is None or not (link.open or link.waits):
                yield False
                continue
            link.withdraw(error.of(link.scope))
            yield True

    def _checked(self, link: Link) -> AmqpError | None:
        """As `link`.

        If an unexpected error prevents the check, this link is withdrawn and the others are still checked.
        """
        try:
            return self.link(link)
        except Exception as error:
            self._report.task_failed("revalidation", error)
            text = "the gateway could not check this link under the new policy; attach again"
            return AmqpError(INTERNAL_ERROR, text, fault=Fault.GATEWAY)

    def link(self, link: Link) -> AmqpError | None:
        """Why a link may not stay; None: it may. A handler that has other links has them checked first."""
        scope = self._scopes.get(link.scope)
        if scope is None:
            return AmqpError(CONNECTION_FORCED, "the scope was removed from the policy")
        if link.handler is not None:  # its attach has been answered
            link.handler.policy_changed(self.decided)
        return scope.unnamed(link) or self.decided(link)

    def decided(self, link: DecidedLink) -> AmqpError | None:
        """Why a link may not stay under the rules; None: it may, or no rule decided about it."""
        node = link.decision
        if not isinstance(node, RouteDecision):
            return None
        scope = self._scopes.get(node.scope)
        if scope is None:
            return AmqpError(CONNECTION_FORCED, "the scope was removed from the policy", scope=node.scope)
        return scope.revalidate(link) or self._backend(node)

    def _backend(self, node: RouteDecision) -> AmqpError | None:
        last, where = node.routes[-1], node.node_scope
        if isinstance(last, KafkaRoute) and last.cluster in self._replaced.clusters:
            return AmqpError(DETACH_FORCED, "the cluster behind this address has changed; attach again", scope=where)
        if isinstance(last, RelayRoute) and (where, last.connector) in self._replaced.connectors:
            return AmqpError(DETACH_FORCED, "the connector behind this address has changed; attach again", scope=where)
        return None
