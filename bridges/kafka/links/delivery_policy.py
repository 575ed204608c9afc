"""The part of the policy that says how the events of a node are delivered (KM-8, KM-12, KM-13, KM-17)."""

from __future__ import annotations

from typing import Final, NamedTuple

from bridges.kafka.clusters.cluster import COMMITTED
from bridges.kafka.produce.dead_letters import DeadLetters


class DeliveryPolicy(NamedTuple):
    """How events are delivered on a link, and how their outcomes are handled."""

    max_redeliveries: int = 5
    strict_order: bool = False
    """Whether newer events of a partition wait until a released or modified one is settled."""
    dead_letters: DeadLetters | None = None
    detach_at_gap: bool = False
    """Whether the link ends if retention deletes its next event (KM-8)."""
    drop_expired: bool = False
    annotated: bool = True
    """Whether events carry the annotations of the extension (ledger A1)."""
    isolation: str = COMMITTED


PLAIN: Final = DeliveryPolicy()
