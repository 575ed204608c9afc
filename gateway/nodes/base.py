"""The protocols of nodes, and of the scope as its nodes use it.

A node gets a `Resolver`, the protocol of `gateway.nodes.scope.Scope`, and all scopes share one `GatewayContext`.
No node imports another one: `GatewayContext.factories` makes the node of a route.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gateway.filters.parse.filter_set import RULES, Rules
from gateway.links.link import MessageOrigin, MessageTarget, Transform
from gateway.response.rate_limit import Buckets
from gateway.routing.reply_rights import permit
from gateway.routing.response_router import AdmissionContext
from gateway.routing.transforms import TransformRegistry

if TYPE_CHECKING:
    from gateway.journal.recorder import Journal
    from gateway.links.decision import RouteDecision
    from gateway.links.link import NodeLink
    from gateway.nodes.service_calls import Responder
    from gateway.principal import Principal, Requester
    from gateway.tracing.spans import Tracer
    from policies.model.scopes.access import Action
    from policies.rules import KafkaRoute, ScopeRules


class Node(Protocol):
    """A node accepts or refuses an attach, now or later, or raises AmqpError."""

    def attach(self, link: NodeLink) -> None: ...


class TemporaryNode(Node, Protocol):
    """A node that ends with the link that created it."""

    @property
    def address(self) -> str: ...
    @property
    def creator(self) -> NodeLink: ...


class TemporaryNodes(Protocol):
    """The temporary nodes of one scope."""

    def find(self, address: str) -> TemporaryNode | None:
        """The node at `address`, if there is one in this process."""


class EventStreams(Protocol):
    """What the resolver uses of a Kafka cluster (`bridges.kafka`)."""

    def node(self, route: KafkaRoute) -> Node: ...
    def info_node(self, route: KafkaRoute) -> Node: ...
    async def behind(self, topic: str, positions: Mapping[int, int]) -> int: ...


class Remotes(Protocol):
    """What the resolver uses of a connector (`gateway.connectors`)."""

    @property
    def engine(self) -> Any:
        """The engine of the connection, for bridges; None: not connected."""
    def relay(self, address: str, make_transform: Any) -> Node: ...
    def watch(self, watcher: Any) -> None: ...
    def unwatch(self, watcher: Any) -> None: ...


class Resolver(Protocol):
    """A scope, as its nodes and the gateway's own links use it."""

    @property
    def name(self) -> str: ...
    @property
    def context(self) -> GatewayContext: ...
    @property
    def rules(self) -> ScopeRules: ...
    @property
    def connectors(self) -> Mapping[str, Remotes]: ...
    @property
    def temporaries(self) -> TemporaryNodes: ...
    @property
    def reply_requesters(self) -> dict[str, Requester]:
        """The last requester with each reply address (`gateway.routing.reply_rights`)."""
    @property
    def buckets(self) -> Buckets | None:
        """The rate limits of responders, if the scope has a `response_rate`."""

    def attach_to(self, link: NodeLink, address: str, principal: Principal, *, passed_on: bool = False) -> None:
        """Attach to `address` with the rights of `principal`; raises AmqpError without them.

        `passed_on`: the address belongs to another gateway, even if it looks like a response address of this one.
        """

    def decide(self, action: Action, address: str, principal: Principal) -> RouteDecision:
        """The routes of `address` through all scopes; raises the errors of docs/conformance.md 0.3."""

    def takes_replies(self, address: str) -> bool:
        """Whether `address` is a response address of this gateway."""

    def passes_on(self, address: str, cookie: bytes | None) -> bool:
        """Whether `address` is a link target of a previous gateway that looks like a response address of this one."""

    def direct_node(self, address: str, mode: str) -> Node:
        """The direct node at `address`, created at its first attach and removed after its last detach."""


NodeFactory: TypeAlias = "Callable[[Resolver, Any, RouteDecision, str], Node]"
"""Makes the node that a decision leads to: its scope, its last route, the decision, and the address in that scope.

The route has the class that is the key of the factory.
"""


@dataclass(slots=True)
class GatewayContext:
    """What the scopes of one gateway share."""

    scopes: Mapping[str, Resolver]
    kafka: Mapping[str, EventStreams]
    transforms: TransformRegistry
    new_name: Callable[[], str]
    waits: AdmissionContext
    soon: Callable[[Callable[[], None]], None]
    """Schedules a short call for a later turn of the loop, together with others."""
    factories: Mapping[type, NodeFactory]
    """The factory of nodes for each class of routes."""
    filter_rules: Rules = RULES
    journal: Journal | None = None
    tracer: Tracer | None = None
    """Samples messages for spans; None: there are no traces."""
    responders: dict[tuple[str, str], Responder] = field(default_factory=dict)
    """Services that are made elsewhere, by scope and name."""

    def transform_for(self, origin: MessageOrigin, target: MessageTarget) -> Transform | None:
        """The transform of messages from one link to another, by the present policy and their requester's right."""
        right = permit(self.scopes.get(origin.context.scope), origin.requester)
        crossing = self.transforms.transform_for(origin, target, right)
        if self.journal is None:
            return crossing
        return self.journal.crossing(origin, target, self.transforms.choose(origin, target), crossing)
