"""The settings of a dispatcher, and the services of the gateway that it uses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import NamedTuple

from bridges.kafka.bridge import ClusterBridge
from gateway.state.leases.manager import Leases
from gateway.state.termini.store import Termini
from gateway.tasks import Supervisor
from policies.rules import KafkaRoute


class DispatcherSettings(NamedTuple):
    """The settings of the policy for a dispatcher; times in seconds."""

    scope: str
    manager: str
    streams: Mapping[str, KafkaRoute]
    """By address."""
    slices: int = 1
    refusals: int = 20
    suspend_after: float = 5 * 86400
    retry_after: float = 3600
    max_buffered_bytes: int = 64 * 1024 * 1024
    """Maximum size of the events in memory of all subscriptions together, in bytes."""


class DispatcherServices(NamedTuple):
    """Services of the gateway that its dispatchers share."""

    clusters: Mapping[str, ClusterBridge]
    leases: Leases
    termini: Termini
    supervisor: Supervisor
    caught_up: Callable[[], Awaitable[bool]]
    """See `SliceListener`."""
