"""A link of a consumer group that owns one partition by a lease (ES 4.5, 4.6.2, 4.6.3; KM-10)."""

from __future__ import annotations

from typing import Final

from bridges.kafka.clusters.cluster import Cluster
from bridges.kafka.groups.gate import LeaseGatedLink
from bridges.kafka.groups.group_handler import ForwardingHandler
from bridges.kafka.groups.topic_growth import TopicGrowthWatcher
from bridges.kafka.links.receiver import LogReceiver
from bridges.kafka.records.event import EncodedEvent
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.link.state import DetachKind
from gateway.errors import DETACH_FORCED, STOLEN, AmqpError
from gateway.state.leases.lease import Lease, RevocationReason
from gateway.state.leases.manager import Leases

_IN_ORDER: Final = (DetachKind.CLOSED, DetachKind.SESSION, DetachKind.CONNECTION)
GRACE: Final = 5.0
"""Seconds that a link waits for outcomes before its partition goes to another link."""


class GroupHandler(ForwardingHandler[LogReceiver]):
    """Handler of the link: the receiver ends with the lease, and the lease with the link."""

    def __init__(
        self,
        gate: LeaseGatedLink,
        lease: Lease,
        receiver: LogReceiver,
        cluster: Cluster,
        leases: Leases,
        growth: TopicGrowthWatcher,
    ) -> None:
        super().__init__(receiver)
        self._gate: Final = gate
        self._lease: Final = lease
        self._cluster: Final = cluster
        self._leases: Final = leases
        self._growth: Final = growth
        self._awaited = 0

    def on_detach(self, error: AmqpError | None) -> None:
        """The link is over: the partition is free."""
        # After a detach that does not close, or a broken connection, the epoch stays in force (ES-4.5.2-6).
        orderly = error is None and self._gate.left in _IN_ORDER
        self._growth.end()
        self._receiver.on_detach(error)
        self._leases.release(self._lease, orderly=orderly)

    # -- from the lease

    def stop(self, lease: Lease, why: RevocationReason) -> None:
        """See `LeaseListener`."""
        self._gate.closing = True
        if why in (RevocationReason.DISPLACED, RevocationReason.EQUALLED):
            self._gate.detach(AmqpError(STOLEN, why.value))
        elif why is RevocationReason.LOST:
            self._gate.detach(AmqpError(DETACH_FORCED, why.value))
        else:
            self._end_in_order()

    def _end_in_order(self) -> None:
        """ES-4-13: send nothing more, and wait up to `GRACE` seconds for the outcomes of what was sent."""
        self._awaited = len(self._gate.unsettled) + len(self._receiver.retirements)
        if not self._awaited:
            self._end()
            return
        self.on_outcome, self.on_accepted = self._outcome_awaited, self._accepted_awaited
        self._cluster.loop.call_later(GRACE, self._end)

    def _outcome_awaited(self, event: EncodedEvent, outcome: Outcome) -> None:
        self._receiver.on_outcome(event, outcome)
        self._awaited -= 1
        if not self._awaited:
            self._end()

    def _accepted_awaited(self, events: list[EncodedEvent]) -> None:
        self._receiver.on_accepted(events)
        self._awaited -= len(events)
        if not self._awaited:
            self._cluster.loop.call_soon(self._end)  # a link must not end while a batch of outcomes is handled

    def _end(self) -> None:
        self._gate.detach(AmqpError(DETACH_FORCED, RevocationReason.REBALANCED.value))
