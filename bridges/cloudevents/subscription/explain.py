"""Explains the manager's answer to a proposed subscription, with the lines of the policy that decide it. Pure.

It calls the same functions as Create, so that both always agree. Names are not resolved.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from bridges.cloudevents.model.strict_json import read_object
from bridges.cloudevents.model.values import InvalidSubscription, Json, Mistake, SinkProtocol
from bridges.cloudevents.subscription.parse import Proposal, StoredSecrets, parse, read_subscription
from bridges.cloudevents.subscription.policy_check import DENIED, sink_rule_of
from bridges.cloudevents.subscription.subscription import Subscription
from policies.egress import SinkRule
from policies.explain.explanation import describe, printable
from policies.subscriptions import ManagerRules

_NEW: Final = "(new)"


@dataclass(frozen=True, slots=True)
class SubscriptionExplanation:
    """One answer, for people (`str()`) and for programs (`as_dict()`)."""

    manager: str
    user: str
    code: str
    """`ok`, or the error of the API: `invalid` or `forbidden`."""
    mistakes: tuple[tuple[str, str], ...]
    sources: Mapping[str, str | None]
    """Its streams, each with the policy line that grants it; None if no line does."""
    sink_where: str | None
    lines: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def allowed(self) -> bool:
        """Whether the subscription would be created, provided that its sink consents."""
        return self.code == "ok"

    def as_dict(self) -> dict[str, object]:
        """The same as plain data."""
        return asdict(self)


def explain_subscription(rules: ManagerRules, user: str, body: bytes, now_ms: int) -> SubscriptionExplanation:
    """Explain the manager's answer if `user` creates the subscription that `body` proposes."""
    mistakes: tuple[Mistake, ...] = ()
    try:
        parse(body, rules, new_id=_NEW, owner=user, now_ms=now_ms)
    except InvalidSubscription as invalid:
        mistakes = invalid.mistakes
    found = _read(body, rules, user)
    sources = _sources(found, rules, user)
    granted = [where for where in sources.values() if where is not None]
    named = found is not None and found.config.addresses is not None
    forbidden = len(granted) < len(sources) if named else not granted
    code = "invalid" if mistakes else "forbidden" if forbidden else "ok"
    rule = None if found is None else sink_rule_of(found, rules)
    return SubscriptionExplanation(
        manager=rules.full_name,
        user=user,
        code=code,
        mistakes=tuple(mistakes),
        sources=sources,
        sink_where=None if rule is None else str(rule.where),
        lines=tuple(_lines(rules, user, found, sources, rule, mistakes, code)),
    )


def _read(body: bytes, rules: ManagerRules, user: str) -> Subscription | None:
    """The readable part of the object, whatever its mistakes."""
    try:
        value: dict[str, Json] = read_object(body)
    except InvalidSubscription:
        return None
    proposal = Proposal(user, new_id=_NEW, stored_secrets=StoredSecrets())
    return read_subscription(value, rules.filters, rules.delivery, proposal, [])


def _sources(found: Subscription | None, rules: ManagerRules, user: str) -> dict[str, str | None]:
    addresses = tuple(rules.streams) if found is None else found.config.addresses or tuple(rules.streams)
    grants = ((address, rules.access.access(user, "subscribe", address)) for address in addresses)
    return {address: str(grant.where) if grant.where is not None else None for address, grant in grants}


def _lines(
    rules: ManagerRules,
    user: str,
    found: Subscription | None,
    sources: Mapping[str, str | None],
    rule: SinkRule | None,
    mistakes: tuple[Mistake, ...],
    code: str,
) -> Iterator[str]:
    yield f"{printable(user)} wants to subscribe at manager {rules.name} of scope {rules.scope}"
    for address, where in sources.items():
        route = rules.streams.get(address)
        leads = f"{describe(route)}  ({route.where})" if route is not None else "no event stream of this manager"
        yield f"  source   {printable(address)}: {leads}"
        denied = f"no entry of scopes.{rules.scope}.access grants subscribe"
        yield f"           {f'granted  ({where})' if where is not None else denied}"
    if found is not None:
        yield f"  sink     {_sink(found, rule)}"
    yield from (f"           {line}" for line in (_conditions(rule) if rule is not None else ()))
    yield from (f"  mistake  {printable(mistake.field or '(object)')}: {mistake.message}" for mistake in mistakes)
    yield f"  result   {'allowed' if code == 'ok' else code}"


def _sink(found: Subscription, rule: SinkRule | None) -> str:
    destination = f"{found.protocol} {printable(found.sink.text.partition('?')[0])}"
    if address := found.destination.address:
        destination += f", {'topic' if found.protocol is SinkProtocol.KAFKA else 'address'} {printable(address)}"
    return f"{destination}: {DENIED}" if rule is None else f"{destination}: allowed  ({rule.where})"


def _conditions(rule: SinkRule) -> Iterator[str]:
    """The checks that remain before anything is sent."""
    if rule.to is not None and "kafka" not in rule.protocols:
        names = ["public"] * rule.public + [str(network) for network in rule.networks]
        yield f"its host has to resolve to an address of {', '.join(names)}"
    if rule.to is not None and "http" in rule.protocols and rule.handshake:
        yield "the sink is asked for its consent (handshake: on)"
