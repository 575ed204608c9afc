"""Compiles the model's rules into `ScopeRules`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace

from policies.access import CompiledAccess
from policies.event_log_scopes import shows_logs
from policies.internal_topics import ReservedTopics, reserved_topics
from policies.model.policy import Policy
from policies.model.scopes.access import AccessRule
from policies.model.scopes.addresses import DirectRule, KafkaRule, RedirectRule, RelayRule, ServiceRule
from policies.model.scopes.assignment import Assignment
from policies.model.scopes.reading import LogReadingRule
from policies.rules import (
    AddressRules,
    CompiledAddress,
    DirectRoute,
    KafkaRoute,
    RedirectRoute,
    RelayRoute,
    Route,
    ScopeRules,
    ServiceRoute,
    legal_topic,
)
from policies.text.diagnostics import PolicyLine
from policies.text.tree import Tree
from policies.values.pattern_index import PatternIndex
from policies.values.patterns import routable

AddressRule = DirectRule | RelayRule | KafkaRule | ServiceRule | RedirectRule
Build = Callable[[str, dict[str, str]], Route | None]


def compile_scopes(policy: Policy, tree: Tree) -> dict[str, ScopeRules]:
    """The rules of every scope, each with its line in the file."""
    reserved = reserved_topics(policy)
    patterns = {
        name: PatternIndex((at, rule.match) for at, rule in enumerate(scope.addresses))
        for name, scope in policy.scopes.items()
    }
    addresses = {name: AddressRules(_addresses(name, policy, tree, reserved), patterns[name]) for name in patterns}
    return {
        name: ScopeRules(
            name,
            addresses,
            tuple(_access(entry, _where(tree, name, "access", at)) for at, entry in enumerate(scope.access)),
            event_streams=shows_logs(policy, patterns, name),
            responses=any(_answers(rule) for rule in scope.addresses),
        )
        for name, scope in policy.scopes.items()
    }


def _addresses(
    name: str, policy: Policy, tree: Tree, reserved: Mapping[str, ReservedTopics]
) -> tuple[CompiledAddress, ...]:
    scope = policy.scopes[name]
    connectors = frozenset(connector.name for connector in scope.connect)
    return tuple(
        _address(rule, connectors, _where(tree, name, "addresses", at), reserved)
        for at, rule in enumerate(scope.addresses)
    )


def _where(tree: Tree, scope: str, key: str, at: int) -> PolicyLine:
    return tree.policy_line(("scopes", scope, key, at))


def _answers(rule: AddressRule) -> bool:
    """Whether requests with response annotations can be sent to some node of this rule."""
    if isinstance(rule, RelayRule):
        return rule.replies.mode != "none"
    return not isinstance(rule, KafkaRule | RedirectRule)


def _access(entry: AccessRule, where: PolicyLine) -> CompiledAccess:
    who = None if "*" in entry.who else frozenset(entry.who)
    return CompiledAccess(who, frozenset(entry.may), entry.on, where)


def _address(
    rule: AddressRule, connectors: frozenset[str], where: PolicyLine, reserved: Mapping[str, ReservedTopics]
) -> CompiledAddress:
    if isinstance(rule, DirectRule):
        direct = DirectRoute(rule.direct, where)
        return CompiledAddress(rule.match, lambda _address, _captures: direct, where)
    if isinstance(rule, ServiceRule):
        service = ServiceRoute(rule.service, where, rule.manager)
        return CompiledAddress(rule.match, lambda _address, _captures: service, where)
    if isinstance(rule, RedirectRule):
        return CompiledAddress(rule.match, _redirect(rule, where), where)
    if isinstance(rule, RelayRule):
        return CompiledAddress(rule.match, _relay(rule, connectors, where), where)
    return _kafka(rule, where, reserved.get(rule.kafka, ReservedTopics()))


def _relay(rule: RelayRule, connectors: frozenset[str], where: PolicyLine) -> Build:
    connector = rule.relay if rule.relay in connectors else None
    scope = rule.relay if connector is None else None
    template, replies, uses = rule.address, rule.replies.mode, rule.replies.uses

    def build(address: str, captures: dict[str, str]) -> RelayRoute | None:
        there = address if template is None else template.fill(captures)
        return RelayRoute(scope, connector, there, replies, where, uses) if routable(there) else None

    return build


def _redirect(rule: RedirectRule, where: PolicyLine) -> Build:
    place, template = rule.redirect, rule.address
    hostname = rule.hostname or place.host

    def build(address: str, captures: dict[str, str]) -> RedirectRoute | None:
        there = address if template is None else template.fill(captures)
        return RedirectRoute(hostname, place.host, place.port, there, where) if routable(there) else None

    return build


def _assignment(rule: KafkaRule) -> Assignment:
    return Assignment(**{each.name: getattr(rule, each.name) for each in fields(Assignment)})


def _reading(rule: KafkaRule) -> LogReadingRule:
    values = {each.name: getattr(rule, each.name) for each in fields(LogReadingRule)}
    return LogReadingRule(**{**values, "dead_letter": None})


def _kafka(rule: KafkaRule, where: PolicyLine, reserved: ReservedTopics) -> CompiledAddress:
    assignment, plain = _assignment(rule), _reading(rule)

    def refusal(captures: dict[str, str]) -> str | None:
        return _unfit(rule, captures) or reserved.refusal(rule, captures)

    def build(_address: str, captures: dict[str, str]) -> KafkaRoute | None:
        topic = rule.topic.fill(captures)
        if not legal_topic(topic) or refusal(captures) is not None:
            return None
        reading = plain if rule.dead_letter is None else replace(plain, dead_letter=rule.dead_letter.fill(captures))
        fixed = rule.mode, rule.credit, rule.tombstones, reading, where, rule.key_from
        return KafkaRoute(rule.kafka, topic, assignment, *fixed)

    return CompiledAddress(rule.match, build, where, refusal)


def _unfit(rule: KafkaRule, captures: dict[str, str]) -> str | None:
    """Why the dead-letter topic of a rule is not allowed; None: it is, or the rule has none."""
    if rule.dead_letter is None:
        return None
    topic = rule.dead_letter.fill(captures)
    if topic == rule.topic.fill(captures):
        return "its dead_letter would be the topic itself"
    return None if legal_topic(topic) else "its dead_letter would not be a legal topic name"
