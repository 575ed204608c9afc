"""Finds the scopes that show event logs: their own, and those that a relay leads to (ES 3.1).

It compares patterns only, because no address is known before a client asks for it: a relay counts as leading to each
rule of the other scope that some address of the relay could match.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from policies.model.policy import Policy
from policies.model.scopes.addresses import KafkaRule, RelayRule
from policies.values.pattern_index import PatternIndex
from policies.values.patterns import shape

_Place = tuple[str, int]


def shows_logs(policy: Policy, patterns: Mapping[str, PatternIndex], scope: str) -> bool:
    """Whether some address of `scope` may be that of an event log; `patterns`: those of each scope's addresses."""
    waiting = [(scope, at) for at in range(len(policy.scopes[scope].addresses))]
    seen = set(waiting)
    while waiting:
        scope, at = waiting.pop()
        rule = policy.scopes[scope].addresses[at]
        if isinstance(rule, KafkaRule):
            return True
        if isinstance(rule, RelayRule):
            onward = set(_onward(policy, patterns, scope, rule)) - seen
            seen |= onward
            waiting.extend(onward)
    return False


def _onward(policy: Policy, patterns: Mapping[str, PatternIndex], scope: str, rule: RelayRule) -> Iterator[_Place]:
    """The rules that a relay may lead to; none at a connector, where another container decides."""
    if any(connector.name == rule.relay for connector in policy.scopes[scope].connect):
        return
    there = rule.match.shape if rule.address is None else shape(rule.address)
    for at in patterns[rule.relay].meeting(there):
        yield rule.relay, at
