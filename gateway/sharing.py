"""What gateway processes share beside the state itself: leases of consumer groups, and where each can be reached.

Part of the composition root, kept apart from `service`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from gateway.state.leases import Leases, open_leases
from gateway.tasks import Supervisor

if TYPE_CHECKING:
    from gateway.http.readiness import Readiness
    from policies.rules import CompiledPolicy


def shared_leases(policy: CompiledPolicy, supervisor: Supervisor, readiness: Readiness) -> Leases:
    """The leases of the process, by the state that the policy names when the process starts."""
    gateway = policy.model.gateway
    leases = open_leases(gateway.state, gateway.lease.seconds, supervisor)
    if gateway.state != "memory":
        readiness.add("groups", leases.ready)
    return leases


def announced(policy: CompiledPolicy) -> str:
    """What other processes hear of this one: per scope the place where its clients reach it (`advertise`)."""
    places = {
        name: next(([*listener.advertise] for listener in scope.listen if listener.advertise is not None), None)
        for name, scope in policy.model.scopes.items()
    }
    known = {name: place for name, place in places.items() if place is not None}
    return json.dumps({"gateway": policy.model.gateway.id, "places": known}, sort_keys=True)
