"""The consumer group and epoch in the link properties of an attach and of its answer (ES 4.5, 4.6.2, 4.6.3)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from bridges.kafka.common import partitions
from gateway.amqp.codec.types import Long, Symbol, Timestamp, Value
from gateway.errors import INVALID_FIELD, NOT_ALLOWED, NOT_FOUND, AmqpError
from gateway.state.leases.lease import Lease
from policies.model.scopes.assignment import MAX_GROUP_NAME, Assignment, legal_group

EPOCH: Final = "event-streams-epoch"
_GREATEST: Final = (1 << 63) - 1


class Membership(NamedTuple):
    """The group that a link asks to join, and the epoch if it names one."""

    group: str
    epoch: int | None


def membership(properties: Mapping[Value, Value], rules: Assignment) -> Membership | None:
    """The group that a receive link asks for; None: none. Raises AmqpError as docs/conformance.md 0.3 says."""
    group = properties.get(partitions.GROUP)
    if group is None:
        return None  # an epoch without a group has no meaning
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


def _refuse_binding(properties: Mapping[Value, Value]) -> None:
    """A link that shares partitions may name neither a partition nor an epoch (ES-4.5.1-8)."""
    for name in (partitions.PARTITION, EPOCH):
        if properties.get(name) is not None:
            text = f"links of a group share its partitions at this node (group_mode: shared): attach without {name}"
            raise AmqpError(NOT_ALLOWED, text, info={"field": name})


def epoch_of(properties: Mapping[Value, Value]) -> int | None:
    """The requested epoch, of any integer type; the answer is a long (ledger A9). Raises AmqpError."""
    epoch = properties.get(EPOCH)
    if epoch is None:
        return None
    if isinstance(epoch, bool | Timestamp) or not isinstance(epoch, int) or not 0 <= epoch <= _GREATEST:
        raise AmqpError(INVALID_FIELD, f"{EPOCH} must be a long, 0 or greater", info={"field": EPOCH})
    return int(epoch)


def group_key(cluster: str, topic: str, group: str) -> str:
    """The name of a group's record; the same in every process that serves the topic, whatever its address."""
    return f"{cluster}/{topic}/{group}"


def answer(group: str, lease: Lease) -> dict[Symbol, str | Long]:
    """The link properties in force (ES-4.6.1-2, ES-4.6.2-3, ES-4.5.2-3)."""
    return {
        Symbol(partitions.PARTITION): Symbol(str(lease.partition)),
        Symbol(partitions.GROUP): group,
        Symbol(EPOCH): Long(lease.epoch),
    }
