"""Creates the node of a route, by the class of the route."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from gateway.nodes.base import Node, NodeFactory, Resolver
from gateway.nodes.cross_scope import CrossScopeNode
from gateway.nodes.responder import ResponderNode
from gateway.nodes.service import ServiceNode
from policies.rules import DirectRoute, KafkaRoute, RelayRoute, ServiceRoute

if TYPE_CHECKING:
    from gateway.links.decision import RouteDecision


def _direct(scope: Resolver, route: DirectRoute, decided: RouteDecision, address: str) -> Node:
    return scope.direct_node(address, route.mode)


def _remote(scope: Resolver, route: RelayRoute, decided: RouteDecision, address: str) -> Node:
    """A node of the container behind a connector; the resolver has already followed routes into other scopes."""
    assert route.connector is not None
    return scope.connectors[route.connector].relay(route.address, scope.context.transform_for)


def _topic(scope: Resolver, route: KafkaRoute, decided: RouteDecision, address: str) -> Node:
    cluster = scope.context.kafka[route.cluster]
    if decided.action == "info":
        return cluster.info_node(route)
    return CrossScopeNode(cluster.node(route), scope)


def _service(scope: Resolver, route: ServiceRoute, decided: RouteDecision, address: str) -> Node:
    return ServiceNode(scope) if route.manager is None else ResponderNode(scope, route.manager)


NODE_FACTORIES: Final[Mapping[type, NodeFactory]] = {
    DirectRoute: _direct,
    RelayRoute: _remote,
    KafkaRoute: _topic,
    ServiceRoute: _service,
}
