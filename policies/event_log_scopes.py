"""Finds the scopes that show event logs: their own, and those that a relay leads to (ES 3.1).

It compares patterns only, because no address is known before a client asks for it: a relay counts as leading to each
rule of the other scope that some address of the relay could match.
"""

from __future__ import annotations

from collections.abc import Iterator

from policies.model.policy import Policy
from policies.model.scopes.addresses import KafkaRule, RelayRule
from policies.values.patterns import Pattern, PatternShape, Segment, shape

_Place = tuple[str, int]


def shows_logs(policy: Policy, scope: str) -> bool:
    """Whether some address of `scope` may be that of an event log."""
    seen: set[_Place] = set()
    waiting = [(scope, at) for at in range(len(policy.scopes[scope].addresses))]
    while waiting:
        scope, at = place = waiting.pop()
        rule = policy.scopes[scope].addresses[at]
        if isinstance(rule, KafkaRule):
            return True
        if isinstance(rule, RelayRule) and place not in seen:
            seen.add(place)
            waiting.extend(_onward(policy, scope, rule))
    return False


def _onward(policy: Policy, scope: str, rule: RelayRule) -> Iterator[_Place]:
    """The rules that a relay may lead to; none at a connector, where another container decides."""
    if any(connector.name == rule.relay for connector in policy.scopes[scope].connect):
        return
    there = PatternShape(rule.match.segments, rule.match.rest) if rule.address is None else shape(rule.address)
    for at, other in enumerate(policy.scopes[rule.relay].addresses):
        if _may_match(there, other.match):
            yield rule.relay, at


def _may_match(there: PatternShape, pattern: Pattern) -> bool:
    """Whether an address of this shape can match."""
    mine, theirs = there.segments, pattern.segments
    if (len(mine) < len(theirs) and not there.rest) or (len(theirs) < len(mine) and not pattern.rest):
        return False
    return all(_may_equal(one, other) for one, other in zip(mine, theirs, strict=False))


def _may_equal(one: Segment, other: Segment) -> bool:
    """Whether some text matches both: where both have a wildcard, their literal ends must fit each other."""
    if not (one.wild and other.wild):
        return one.covers(other) or other.covers(one)
    begins = one.before.startswith(other.before) or other.before.startswith(one.before)
    return begins and (one.after.endswith(other.after) or other.after.endswith(one.after))
