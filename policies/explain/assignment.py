"""Explains how partitions of an event log are assigned to links, and to links of a consumer group (ES 4)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from policies.model.scopes.assignment import Allowed, Assignment

_UNNAMED: Final = {
    "agnostic": "reads all partitions",
    "assign": "is bound to a partition that the gateway chooses",
    "client": "is refused (amqp:not-allowed): it has to name one",
}
_SURPLUS: Final = {
    "reject": "amqp:link:detach-forced (surplus: reject)",
    "pend": "they stand by without one (surplus: pend)",
}


def assignment_lines(rules: Assignment, action: str) -> Iterator[str]:
    """How links at the address are assigned partitions, for the `action` send or receive."""
    yield f"a link that names no partition {_UNNAMED[rules.binding]}"
    yield f"a link that names one {_named(rules.partitions)}"
    if action == "receive":
        yield from _groups(rules)
    if rules.ownership == "sharded":
        yield "a partition of another gateway process: amqp:link:redirect names that process (ownership: sharded)"


def _named(allowed: Allowed) -> str:
    if allowed == "all":
        return "is bound to it"
    if allowed == "none":
        return "is refused (amqp:not-allowed; partitions: none)"
    return f"is bound to it if it is one of {', '.join(map(str, allowed))}, else refused (amqp:not-allowed)"


def _groups(rules: Assignment) -> Iterator[str]:
    if rules.groups == "none":
        yield "a link of a consumer group is refused (amqp:not-allowed; groups: none)"
        return
    of = "any group" if rules.groups == "dynamic" else f"group {', '.join(rules.groups)} (others: amqp:not-found)"
    if rules.group_mode == "shared":
        yield f"a link of {of} gets its share of the partitions, which changes as links come and go"
        yield "  it names a partition or an epoch: amqp:not-allowed (group_mode: shared)"
        yield f"  more links than partitions: {_SURPLUS[rules.surplus]}"
        return
    yield f"a link of {of} owns one partition, the one it names or a free one"
    if rules.surplus == "reject":
        yield "  none free: amqp:link:detach-forced (surplus: reject)"
    else:
        wait = f"up to {rules.pending_timeout.seconds:g} s, {rules.pending_limit} links at most"
        yield f"  none free: the link waits for one, {wait} (surplus: pend)"
    yield "  owned by another link: amqp:resource-locked, unless this one has a greater epoch"
