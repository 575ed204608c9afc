"""The resolver of a scope: it finds the node of an address for a principal, or raises one AMQP error (docs/design.md).

There is one `Scope` per address space. Attaches, the anonymous terminus and responses all use `Scope.attach` and
`Scope.attach_to`, so that they get the same errors as a direct link. Both need a principal (`gateway.principal`).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from gateway.errors import (
    INVALID_FIELD,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    UNAUTHORIZED_ACCESS,
    AmqpError,
    Fault,
    quoted,
)
from gateway.links.decision import RouteDecision, differs, follow_response_routing
from gateway.links.link_context import announced_capabilities, link_context
from gateway.nodes.anonymous_terminus import attach_anonymous, attach_replies
from gateway.nodes.base import GatewayContext, Node, Remotes, Resolver
from gateway.nodes.direct.multicast import Multicast
from gateway.nodes.direct.node import DirectNode
from gateway.nodes.link_registry import LinkRegistry
from gateway.nodes.pairs import Pairs
from gateway.nodes.redirect import redirected
from gateway.nodes.temporary import Temporaries
from gateway.principal import GatewayItself, Principal, Requester, User, client, user_name
from gateway.response.rate_limit import Buckets
from gateway.tracing.links import traced
from gateway.transactions.coordinator import attach_coordinator
from gateway.transactions.table import TransactionLimits
from policies.reserved import TEMPORARY, replies_address, response_suffix
from policies.rules import (
    INFO_SUFFIX,
    MAX_HOPS,
    VERBS,
    RedirectRoute,
    RelayRoute,
    Route,
    ScopeRules,
)

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link
    from gateway.links.decision import DecidedLink
    from gateway.links.link import NodeLink
    from policies.model.scopes.access import Action
    from policies.values.units import Rate

_RELAY: Final = "ANONYMOUS-RELAY"


class ScopeOptions(NamedTuple):
    """What a scope offers."""

    anonymous: bool
    """Whether it has an anonymous terminus."""
    temporary: bool
    """Whether clients may create temporary nodes."""
    strict_desired: bool = False
    """Whether only connections whose open desired the anonymous terminus may use it."""
    response_rate: Rate | None = None
    """The maximum rate of each responder; None: no limit."""
    transactions: tuple[int, int, int] | None = None
    """The most that may be open, those of one connection, and the milliseconds of each; None: no coordinator."""


class Scope:
    """One address space and its nodes."""

    def __init__(self, name: str, rules: ScopeRules, context: GatewayContext, options: ScopeOptions) -> None:
        self.name: Final = name
        self.context: Final = context
        self.connectors: dict[str, Remotes] = {}
        self.direct_nodes: dict[tuple[str, str], DirectNode] = {}
        self.temporaries: Final = Temporaries(self)
        self.pairs: Final = Pairs(self, self.temporaries)
        self.links: Final = LinkRegistry()
        self._transactions: Final = TransactionLimits(
            context.waits.later, lambda: context.new_name().encode(), context.soon
        )
        self.reply_requesters: Final[dict[str, Requester]] = {}
        """The last requester with each reply address (`reply_rights`)."""
        self._replies: Final = replies_address(name)
        self._response_rate: Rate | None = None
        self.buckets: Buckets | None = None
        """The rate limits of responders, if there is a `response_rate`."""
        self.configure(rules, options)

    def configure(self, rules: ScopeRules, options: ScopeOptions) -> None:
        """Use the rules and options of a new policy; `revalidate` checks the links that are attached."""
        response_rate, transactions = options.response_rate, options.transactions
        self.rules = rules
        self.strict_desired = options.strict_desired
        if response_rate != self._response_rate:
            self._response_rate = response_rate
            self.buckets = None if response_rate is None else Buckets(response_rate.number, response_rate.per_ms)
        self.anonymous = options.anonymous
        self.temporary = options.temporary
        self._coordinates = transactions is not None
        if transactions is not None:
            self._transactions.limit(*transactions)

    # -- attach

    def attach(self, link: Link) -> None:
        """Attach a link of a peer in this scope."""
        pair = self.pairs.of(link)
        link.context = link_context(self.name, pair=pair if link.incoming else None)
        link.filter_rules = self.context.filter_rules
        terminus = link.target if link.incoming else link.source
        peer = client(link)
        responses = pair is not None and not link.incoming and not self.pairs.consumes(link, pair)
        if terminus.address is not None and not (terminus.dynamic or responses):
            self.attach_to(link, terminus.address, peer)
            return
        with self._journaled(link, terminus.address, peer):
            if terminus.coordinator:
                self._attach_coordinator(link)
                return
            if not (terminus.dynamic or terminus.present):
                raise AmqpError(INVALID_FIELD, f"the attach has no {'target' if link.incoming else 'source'} address")
            if pair is not None and responses:
                self._allowed(link, terminus.address, peer, "pair")
                self.pairs.attach_responses(link, pair)
            else:
                self._attach_unnamed(link, terminus.dynamic)

    def attach_to(self, link: NodeLink, address: str, principal: Principal, *, passed_on: bool = False) -> None:
        """Attach to `address` with the rights of `principal`; raises AmqpError without them.

        `passed_on`: the address belongs to another gateway, even if it looks like a response address of this one.
        """
        _lead(link, self.name)
        with self._journaled(link, address, principal):
            if address.startswith(TEMPORARY):
                node = self.temporaries.at(address)
                node.admit(link, principal)
                self._allowed(link, address, principal, "temporary")
                announced_capabilities(link, self._announces(link, node))
                self._hand_over(link, node, address)
            elif not passed_on and self.takes_replies(address):
                self._allowed(link, address, principal, "replies")
                attach_replies(self, link, address)
            else:
                self._attach_route(link, address, principal)

    @contextmanager
    def _journaled(self, link: NodeLink, address: str | None, principal: Principal) -> Iterator[None]:
        """Report the error of an attach to the journal, too."""
        try:
            yield
        except AmqpError as error:
            error.scope = error.scope or link.behind or self.name
            if self.context.journal is not None:
                self.context.journal.refused(link, self.name, address, user_name(principal), error)
            raise

    def _allowed(self, link: NodeLink, address: str | None, principal: Principal, route: str) -> None:
        """Report an attach to the journal before the node accepts it, so that it counts from the first message on."""
        if self.context.journal is not None:
            self.context.journal.allowed(link, self.name, address, user_name(principal), route)

    def takes_replies(self, address: str) -> bool:
        """Whether `address` is a response address of this gateway.

        The gateway behind a connector may use the same name for its scope. An address that this gateway has not issued
        belongs to that gateway if a rule leads there; otherwise this gateway refuses it.
        """
        suffix = response_suffix(self.name, address)
        if not suffix:
            return suffix is not None
        return self.rules.route(address) is None or self.context.transforms.issued(self.name, suffix[1:])

    def passes_on(self, address: str, cookie: bytes | None) -> bool:
        """Whether a link target of a previous gateway, in a response with its cookie, looks like one of this gateway.

        That gateway may use the same name for the scope between the two; then the cookie decides, if a rule leads
        there.
        """
        if address != self._replies or self.rules.route(address) is None:
            return False
        return cookie is None or not self.context.transforms.own_cookie(self.name, cookie)

    def _attach_route(self, link: NodeLink, address: str, principal: Principal) -> None:
        action: Action = "send" if link.incoming else "receive"
        decided = self.decide(action, address, principal)
        link.decision = decided
        _lead(link, decided.node_scope)
        if (journal := self.context.journal) is not None:
            journal.allowed(link, self.name, address, user_name(principal), "", decided.routes, decided.rule)
        first = decided.routes[0]
        if isinstance(first, RelayRoute) and link.context.replies == "auto":
            # The context of a response keeps the scope of its origin.
            own = link.context
            link.context = link_context(own.scope, first.replies, pair=own.pair, answer=own.answer, uses=first.uses)
        node = self._node(decided)
        announced_capabilities(link, self._announces(link, node, decided.routes))
        self._hand_over(link, node, address)

    def _hand_over(self, link: NodeLink, node: Node, address: str) -> None:
        """Give a link to its node, within spans of its messages if the policy asks for traces."""
        if self.context.tracer is not None:
            link = traced(self.context.tracer, link, self.name, address)
        node.attach(link)

    def _announces(self, link: NodeLink, node: Node, routes: tuple[Route, ...] = ()) -> bool:
        """Whether annotations on messages of `link` are honoured (RA-2.2-4).

        They are if the message goes into another scope, or if all present receivers support them; the relay finds out
        about a target at another container.
        """
        if not (link.incoming and self.context.transforms.routes(self.name)):
            return False
        if link.context.replies == "none":
            return False
        if any(isinstance(route, RelayRoute) and route.scope not in (None, self.name) for route in routes):
            return True
        if not isinstance(node, DirectNode):
            return isinstance(routes[-1], RelayRoute)
        honours = self.context.transforms.honours
        kinds = node.receivers.kinds
        return bool(kinds) and all(honours(self.name, each) for each in kinds)

    def _attach_coordinator(self, link: Link) -> None:
        if not self._coordinates:
            raise AmqpError(NOT_IMPLEMENTED, "this scope has no transactions (transactions: false)")
        self._allowed(link, None, client(link), "coordinator")
        attach_coordinator(link, self._transactions)

    def _attach_unnamed(self, link: Link, dynamic: bool) -> None:
        if not (dynamic or link.incoming):
            raise AmqpError(INVALID_FIELD, "the source has no address and is not dynamic")
        if (error := self.unnamed(link)) is not None:
            raise error
        self._allowed(link, None, client(link), "temporary" if dynamic else "anonymous")
        if dynamic:
            self.temporaries.create(link)
        else:
            attach_anonymous(self, link)

    # -- policy

    def decide(self, action: Action, address: str, principal: Principal) -> RouteDecision:
        """The routes of `address` through all scopes; raises the errors of docs/conformance.md 0.3."""
        if principal.scope != self.name:  # users of another scope have no rights here
            raise AmqpError(UNAUTHORIZED_ACCESS, f"{quoted(address)}: not allowed to {VERBS[action]} this address")
        if isinstance(principal, User):
            route, info = self._decide_for_user(action, address, principal.name)
        else:
            route, info = self._decide_for_gateway(action, address, principal)
        if route is None:
            raise AmqpError(NOT_FOUND, f"{quoted(address)}: no node has this address")
        rule = self.rules.rule(address.removesuffix(INFO_SUFFIX) if info else address)
        assert rule is not None  # the route is of this rule
        routes = (route, *self._follow_relays(route))
        return RouteDecision(self.name, principal, "info" if info else action, address, rule.match.text, routes)

    def _decide_for_user(self, action: Action, address: str, user: str) -> tuple[Route | None, bool]:
        """The route, and whether it is for `$info`, by the access entries."""
        decision = self.rules.decide(user, action, address)
        if decision.condition is not None and isinstance(decision.route, RedirectRoute) and decision.grant.allowed:
            raise redirected(decision.route)
        if decision.condition is not None:
            raise AmqpError(decision.condition, f"{quoted(address)}: {decision.reason}")
        return decision.route, decision.info

    def _decide_for_gateway(self, action: Action, address: str, itself: GatewayItself) -> tuple[Route | None, bool]:
        """The same for a link of the gateway itself: its purpose determines its rights instead of access entries."""
        if not itself.may(action, address):
            text = f"{quoted(address)}: a {itself.purpose} may not {VERBS[action]} this address"
            raise AmqpError(UNAUTHORIZED_ACCESS, text)
        log = self.rules.log_of(address)
        route = log or self.rules.route(address)
        if isinstance(route, RedirectRoute):  # only clients of this scope can follow a redirect
            raise AmqpError(NOT_FOUND, "the node behind this address is in another container")
        return route, log is not None

    def _follow_relays(self, route: Route) -> tuple[Route, ...]:
        """The further routes in the scopes that a relay leads to."""
        found: list[Route] = []
        while isinstance(route, RelayRoute) and route.scope is not None:
            following = self.context.scopes[route.scope].rules.route(route.address)
            if following is None or len(found) >= MAX_HOPS:
                raise AmqpError(NOT_FOUND, "the node behind this address does not exist", fault=Fault.GATEWAY)
            if isinstance(following, RedirectRoute):  # its address must not be shown outside that scope (RA 1)
                raise AmqpError(
                    NOT_FOUND, "the node behind this address is in another container", fault=Fault.GATEWAY
                )
            found.append(following)
            route = following
        return tuple(found)

    def revalidate(self, link: DecidedLink) -> AmqpError | None:
        """Why a link may not stay under the present rules (reload); None: it may, and follows them from now on."""
        decided = link.decision
        assert decided is not None  # the caller checks only links with a decision
        action: Action = "receive" if decided.action == "info" else decided.action
        try:
            now = self.decide(action, decided.address, decided.principal)
        except AmqpError as error:
            return error.of(self.name)
        changed = differs(decided, now) or follow_response_routing(link, decided.routes[0], now)
        return None if changed is None else changed.of(self.name)

    def unnamed(self, link: Link) -> AmqpError | None:
        """Why a link without an address is not allowed; None: it is."""
        terminus = link.target if link.incoming else link.source
        if terminus.dynamic:
            text = "this scope does not allow dynamic sources and targets"
            return None if self.temporary else AmqpError(NOT_ALLOWED, text)
        if terminus.address is None and not self.anonymous:
            return AmqpError(NOT_IMPLEMENTED, "this scope has no anonymous terminus")
        if terminus.address is None and self.strict_desired and _RELAY not in link.engine.desired:
            text = f"the anonymous terminus requires {_RELAY} in the desired-capabilities of the open"  # AT-2.3-6
            return AmqpError(NOT_ALLOWED, text)
        return None

    # -- nodes

    def _node(self, decided: RouteDecision) -> Node:
        scope: Resolver = self
        address, route = decided.address, decided.routes[0]
        for route in decided.routes:
            if not isinstance(route, RelayRoute) or route.scope is None:
                break
            scope, address = self.context.scopes[route.scope], route.address
        return self.context.factories[type(route)](scope, route, decided, address)

    def direct_node(self, address: str, mode: str) -> DirectNode:
        """The direct node at `address`, created at its first attach and removed after its last detach."""
        key = (address, mode)
        if (node := self.direct_nodes.get(key)) is None:
            kind = Multicast if mode == "multicast" else DirectNode
            node = self.direct_nodes[key] = kind(
                address, self.context.transform_for, unused=lambda _: self._drop(key), soon=self.context.soon
            )
        return node

    def _drop(self, key: tuple[str, str]) -> None:
        self.direct_nodes.pop(key, None)


def _lead(link: NodeLink, scope: str) -> None:
    """A link leads to a node in `scope`: if that is another one, its other end hears no words of the node (RA 1)."""
    link.behind = None if scope == link.scope else scope
