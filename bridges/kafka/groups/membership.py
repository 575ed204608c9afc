"""Links of consumer groups: what an attach asks for, and a link whose right to send can end (ES 4.5, 4.6.2, 4.6.3).

A group's link is bound to one partition that it owns by a lease (`gateway/state/leases/manager.py`). Its receiver sends
through a `Gate`, which gives no credit from the moment on the lease is over; a `GroupHandler` ends the link when the
lease ends, and the lease when the link ends.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from bridges.kafka import partitions
from bridges.kafka.admin.client import Topic
from bridges.kafka.cluster import Cluster
from gateway.amqp.codec.types import Long, Symbol, Timestamp
from gateway.amqp.link.handlers import takes_batches
from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.link.state import DetachKind
from gateway.errors import DETACH_FORCED, INVALID_FIELD, NOT_ALLOWED, NOT_FOUND, STOLEN, AmqpError
from gateway.state.leases.lease import Lease, RevocationReason
from gateway.state.leases.manager import Leases
from policies.model.assignment import MAX_GROUP_NAME, Assignment, legal_group

EPOCH: Final = "event-streams-epoch"
_GREATEST: Final = (1 << 63) - 1
_IN_ORDER: Final = (DetachKind.CLOSED, DetachKind.SESSION, DetachKind.CONNECTION)
GRACE: Final = 5.0
"""Seconds that a link which is asked to attach again waits for outcomes."""


class Membership(NamedTuple):
    """What a link's properties ask for: a group, and the epoch if one is given."""

    group: str
    epoch: int | None


def membership(properties: dict[Any, Any], rules: Assignment) -> Membership | None:
    """The group that a receive link claims to belong to; None: none. Refusals as docs/conformance.md 0.3."""
    group = properties.get(partitions.GROUP)
    if group is None:
        return None  # an epoch means something in a group only
    if not legal_group(group):
        text = f"{partitions.GROUP} must be a printable string of 1 to {MAX_GROUP_NAME} characters"
        raise AmqpError(INVALID_FIELD, text, info={"field": partitions.GROUP})
    if rules.groups == "none":
        raise AmqpError(NOT_ALLOWED, "this node has no consumer groups")
    if rules.groups != "dynamic" and group not in rules.groups:
        raise AmqpError(NOT_FOUND, f"there is no consumer group {group!r}, and groups are not created on use")
    member = Membership(str(group), epoch_of(properties))
    if rules.group_mode == "shared":
        _refuse_binding(properties)
    return member


def _refuse_binding(properties: dict[Any, Any]) -> None:
    """Links that share are bound to nothing, so that nothing of theirs can be named or taken over (ES-4.5.1-8)."""
    for name in (partitions.PARTITION, EPOCH):
        if properties.get(name) is not None:
            text = f"links of a group share its partitions at this node (group_mode: shared): attach without {name}"
            raise AmqpError(NOT_ALLOWED, text, info={"field": name})


def epoch_of(properties: dict[Any, Any]) -> int | None:
    """The epoch asked for: any integer type will do, the answer is a long (ledger A9)."""
    epoch = properties.get(EPOCH)
    if epoch is None:
        return None
    if isinstance(epoch, bool | Timestamp) or not isinstance(epoch, int) or not 0 <= epoch <= _GREATEST:
        raise AmqpError(INVALID_FIELD, f"{EPOCH} must be a long, 0 or greater", info={"field": EPOCH})
    return int(epoch)


def group_key(cluster: str, topic: str, group: str) -> str:
    """The name of a group's record; the same in every process that serves the topic, whatever its address."""
    return f"{cluster}/{topic}/{group}"


def answer(group: str, lease: Lease) -> dict[Any, Any]:
    """The link properties in force (ES-4.6.1-2, ES-4.6.2-3, ES-4.5.2-3)."""
    return {
        Symbol(partitions.PARTITION): Symbol(str(lease.partition)),
        Symbol(partitions.GROUP): group,
        Symbol(EPOCH): Long(lease.epoch),
    }


class TopicGrowthWatcher:
    """Tells a group that its log has more partitions, from before its first claim to the end of the link (KM-9)."""

    def __init__(self, cluster: Cluster, topic: Topic, leases: Leases, key: str, rules: Assignment) -> None:
        self._cluster: Final = cluster
        self._topic: Final = topic.name
        self._leases: Final = leases
        self._key: Final = key
        self._rules: Final = rules
        self.gone = False
        cluster.watch(topic, self)

    def topic_grew(self, topic: Topic) -> None:
        """Called by the cluster."""
        among = self._rules.among(topic.partitions)
        told = self._leases.grow(self._key, topic.partitions, among)
        self._cluster.supervisor.start(told, f"group-grew:{self._topic}")

    def topic_gone(self) -> None:
        """Called by the cluster; a link that has been answered hears of it itself."""
        self.gone = True

    def end(self) -> None:
        """Nobody of this link is left to be told."""
        self._cluster.unwatch(self._topic, self)


class LeaseGatedLink:
    """The link of a lease (or share) as its receiver sees it: without credit from the moment on the lease is over.

    Asked before each batch: after a sleep of the process the first thing to run may be a batch from Kafka.
    """

    def __init__(self, link: Any, lease: Any) -> None:
        self.link: Final = link
        self.lease: Final = lease
        self.closing = False
        self.send: Final = link.send
        self.send_all: Final = link.send_all

    @property
    def credit(self) -> int:
        """What may be sent now."""
        if self.closing or not self.lease.valid:
            return 0
        credit: int = self.link.credit
        return credit

    def __getattr__(self, name: str) -> Any:
        return getattr(self.link, name)


class GroupHandler:
    """Handler of a group's link: the receiver, and what ends the link or the lease."""

    def __init__(
        self, gate: LeaseGatedLink, receiver: Any, cluster: Cluster, leases: Leases, growth: TopicGrowthWatcher
    ) -> None:
        self._gate: Final = gate
        self._lease: Final = gate.lease
        self._receiver: Final = receiver
        self._cluster: Final = cluster
        self._leases: Final = leases
        self._growth: Final = growth
        self._awaited = 0
        # Instance attributes: per outcome no call more than without a group.
        self.on_credit = receiver.on_credit
        self.on_outcome = receiver.on_outcome
        self.on_accepted = receiver.on_accepted

    def __getattr__(self, name: str) -> Any:
        return getattr(self._receiver, name)

    def takes_batches(self) -> bool:
        """As the handler behind it."""
        return takes_batches(self._receiver)

    def on_detach(self, error: AmqpError | None) -> None:
        """The link is over: the partition is free."""
        # A detach that does not close, and a connection that breaks, leave the epoch behind (ES-4.5.2-6).
        orderly = error is None and self._gate.left in _IN_ORDER
        self._growth.end()
        self._receiver.on_detach(error)
        self._leases.release(self._lease, orderly=orderly)

    # -- from the lease

    def stop(self, lease: Lease, why: RevocationReason) -> None:
        """Called when the lease has ended, or shall."""
        self._gate.closing = True
        if why is RevocationReason.DISPLACED:
            self._gate.detach(AmqpError(STOLEN, why.value))
        elif why is RevocationReason.LOST:
            self._gate.detach(AmqpError(DETACH_FORCED, why.value))
        else:
            self._end_in_order()

    def _end_in_order(self) -> None:
        """ES-4-13: nothing more is sent; outcomes of what was sent are awaited for a while."""
        link = self._gate
        self._awaited = len(link.unsettled)
        if not self._awaited:
            self._dealt()
            return
        self.on_outcome, self.on_accepted = self._outcome_awaited, self._accepted_awaited
        self._cluster.loop.call_later(GRACE, self._dealt)

    def _outcome_awaited(self, event: Any, outcome: Outcome) -> None:
        self._receiver.on_outcome(event, outcome)
        self._awaited -= 1
        if not self._awaited:
            self._dealt()

    def _accepted_awaited(self, events: list[Any]) -> None:
        self._receiver.on_accepted(events)
        self._awaited -= len(events)
        if not self._awaited:
            self._cluster.loop.call_soon(self._dealt)  # no link ends while a batch is handed out

    def _dealt(self) -> None:
        self._gate.detach(AmqpError(DETACH_FORCED, RevocationReason.DEALT.value))
