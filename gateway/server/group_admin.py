"""Leases of consumer groups that gateway processes share, the endpoints that they advertise, and their admin requests.

Part of the composition root.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from gateway.errors import NOT_FOUND, AmqpError, quoted
from gateway.state.leases.claim import whole
from gateway.state.leases.group import Group
from gateway.state.leases.manager import Leases
from gateway.state.leases.open import open_leases
from gateway.tasks import Supervisor
from policies.rules import KafkaRoute

if TYPE_CHECKING:
    from gateway.nodes.base import Resolver
    from gateway.observability.readiness import Readiness
    from policies.rules import CompiledPolicy


def shared_leases(policy: CompiledPolicy, supervisor: Supervisor, readiness: Readiness) -> Leases:
    """The leases of the process, in the state that the policy names at the start of the process."""
    gateway = policy.model.gateway
    leases = open_leases(gateway.state, gateway.lease.seconds, supervisor)
    leases.session.about = advertised_endpoints(policy)
    if gateway.state != "memory":
        readiness.add("groups", leases.ready)
    return leases


def advertised_endpoints(policy: CompiledPolicy) -> str:
    """A description of this process for the others: for each scope, the endpoint for its clients (`advertise`)."""
    places = {
        name: next(([*listener.advertise] for listener in scope.listen if listener.advertise is not None), None)
        for name, scope in policy.model.scopes.items()
    }
    known = {name: place for name, place in places.items() if place is not None}
    return json.dumps({"gateway": policy.model.gateway.id, "places": known}, sort_keys=True)


class GroupKeys(Protocol):
    """What `GroupAdmin` uses of a Kafka cluster."""

    def group_key(self, topic: str, group: str) -> str:
        """The key of a topic's group in the leases."""


class GroupAdmin:
    """Answers requests of operators about consumer groups; each process answers for all of them."""

    def __init__(
        self, leases: Leases, scopes: Mapping[str, Resolver], clusters: Mapping[str, GroupKeys]
    ) -> None:
        self._leases: Final = leases
        self._scopes: Final = scopes
        self._clusters: Final = clusters

    def keys(self) -> list[str]:
        """The groups with links of this process; bridges and subscriptions hold leases, too, and are not among them."""
        found = (key.split("/", 2) for key in self._leases.groups())
        return ["/".join(parts) for parts in found if len(parts) == 3 and parts[0] in self._clusters and parts[1]]

    async def show_key(self, key: str) -> dict[str, object]:
        """As `show`, for one of `keys`."""
        return self._as_dict(await self._leases.view(key))

    async def show(self, scope: str, address: str, group: str) -> dict[str, object]:
        """Which member owns which partition, and how many links wait."""
        return self._as_dict(await self._leases.view(self._key(scope, address, group)))

    async def rebalance(self, scope: str, address: str, group: str) -> dict[str, object]:
        """Ask every link whose partition was assigned to end in order and to attach again (ES-4.5.1-5)."""
        return self._as_dict(await self._leases.rebalance(self._key(scope, address, group)))

    async def rebalance_key(self, key: str) -> dict[str, object]:
        """As `rebalance`, for one of `keys`."""
        return self._as_dict(await self._leases.rebalance(key))

    def _key(self, scope: str, address: str, group: str) -> str:
        found = self._scopes.get(scope)
        route = found.rules.route(address) if found is not None else None
        if not isinstance(route, KafkaRoute):
            raise AmqpError(NOT_FOUND, f"{quoted(address)} is not an event log in scope {quoted(scope)}")
        return self._clusters[route.cluster].group_key(route.topic, group)

    def _as_dict(self, group: Group) -> dict[str, object]:
        owners = [
            {
                "partition": number,
                "epoch": held.epoch,
                "fence": held.fence,
                "process": held.who.member,
                "here": held.who.member == self._leases.member,
                "moving": held.successor is not None,
                "chosen_by": "client" if held.chosen and whole(held.who) == held.who else "gateway",
            }
            for number, held in sorted(group.held.items())
        ]
        counts = {"waiting": len(group.waiting), "sharing": len(group.sharing)}
        return {"owners": owners, "free": group.free(), **counts}
