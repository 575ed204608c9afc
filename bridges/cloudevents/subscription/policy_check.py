"""Checks a subscription against the policy: at its creation, and after every reload. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bridges.cloudevents.model.values import (
    AccessToken,
    AmqpSettings,
    FromTime,
    KafkaSettings,
    Mistake,
    RefreshToken,
    SinkProtocol,
)
from bridges.cloudevents.subscription.delivery_request import exceeded
from bridges.cloudevents.subscription.subscription import Subscription
from policies.egress import EgressDenial, SinkRule, address_allowed, allows
from policies.rules import KafkaRoute
from policies.subscriptions import ManagerRules
from policies.values.hosts import address_of

DENIED: Final = "not allowed by the policy of this gateway"
"""The same text for every cause of a denied sink, so that it does not reveal what a name resolves to."""
_CLEAR_TEXT: Final = "would be sent in clear text"
_IN_CLEAR: Final = (
    f"{_CLEAR_TEXT}: use {{}} with TLS; or the policy's entry of sinks has to say allow_plain_without_tls: true"
)
_FEEDBACK_LOOP: Final = "this is one of the subscription's own sources: it would feed itself"


def sink_rule_of(subscription: Subscription, rules: ManagerRules) -> SinkRule | None:
    """The entry of `sinks` that allows this sink to the owner; None if it is denied."""
    rule = allows(rules.sinks, subscription.destination)
    if rule is None or (rule.local is not None and not _may_send(subscription, rules)):
        return None
    if subscription.protocol is SinkProtocol.HTTP and rule.handshake and rules.handshake is None:
        return None
    literal = [address_of(host) for host, _ in subscription.sink.hosts]
    dialled = rule.to is not None and subscription.protocol is not SinkProtocol.KAFKA
    if dialled and any(address is not None and not address_allowed(rule, address) for address in literal):
        return None
    return rule


def policy_violations(subscription: Subscription, rules: ManagerRules, *, sink: bool = True) -> tuple[Mistake, ...]:
    """The reasons why this policy does not allow the subscription; empty if it does.

    `sink` is false if the sink could not be parsed, which is reported already.
    """
    found = [*_sources(subscription, rules)]
    rule = sink_rule_of(subscription, rules) if sink else None
    if sink and rule is None:
        found.append(Mistake("/sink", DENIED))
    if rule is not None:
        found += _credential(subscription, rules, rule)
        found += clear_text_secrets(subscription, rule)
        found += _feedback_loop(subscription, rules, rule)
    missing = subscription.dialects - rules.dialects
    if missing:
        offered = ", ".join(sorted(rules.dialects))
        at = "/filters" if "filters" in subscription.document else "/filter/dialect"
        found.append(Mistake(at, f"{' and '.join(sorted(missing))} is not offered here (offered: {offered})"))
    return tuple(found)


def proposal_violations(subscription: Subscription, rules: ManagerRules, now_ms: int) -> tuple[Mistake, ...]:
    """The mistakes only of new objects: past times, and settings beyond the policy's limits."""
    return (*_times(subscription, rules, now_ms), *exceeded(subscription.request, rules.delivery))


def _times(subscription: Subscription, rules: ManagerRules, now_ms: int) -> Iterator[Mistake]:
    config, credential = subscription.config, subscription.credential
    if isinstance(config.start, FromTime) and config.start.time > now_ms:
        yield Mistake("/config/start", "in the future; latest starts at the next event")
    if config.expires is not None and config.expires <= now_ms:
        yield Mistake("/config/expires", "this time has passed")
    elif config.expires is not None and config.expires > now_ms + rules.limits.expires:
        yield Mistake("/config/expires", f"at most {rules.limits.expires // 86_400_000} days ahead")
    if isinstance(credential, AccessToken) and credential.expires <= now_ms:
        yield Mistake("/sinkcredential/accesstokenexpiresutc", "this time has passed")


def _sources(subscription: Subscription, rules: ManagerRules) -> Iterator[Mistake]:
    for number, address in enumerate(subscription.config.addresses or ()):
        if address not in rules.streams:
            at = "/config/address"
            config = subscription.document.get("config")
            if isinstance(config, dict) and isinstance(config.get("address"), list):
                at = f"{at}/{number}"
            yield Mistake(at, "not an event stream of this manager")


def _may_send(subscription: Subscription, rules: ManagerRules) -> bool:
    return rules.access.decide(subscription.owner, "send", subscription.destination.address).condition is None


def _credential(subscription: Subscription, rules: ManagerRules, rule: SinkRule) -> Iterator[Mistake]:
    credential = subscription.credential
    if credential is not None and rule.to is None:
        yield Mistake("/sinkcredential", "this sink is reached with the gateway's login")
    if isinstance(credential, RefreshToken) and all(each.endpoint != credential.endpoint for each in rules.oauth):
        yield Mistake("/sinkcredential/refreshtokenendpoint", "the policy allows no such endpoint")
    if (credential is not None or subscription.secret_headers) and not rules.seals:
        yield Mistake("/sinkcredential", "this gateway stores no secrets: its policy has no keys")


def clear_text_secrets(subscription: Subscription, rule: SinkRule) -> Iterator[Mistake]:
    """Refuse secrets that would be sent without TLS, unless the entry of `sinks` allows that.

    SCRAM, the default of AMQP and Kafka, sends no password; checked again before each sink is opened.
    """
    if not rule.refuses_plain:
        return
    settings = subscription.settings
    if isinstance(settings, AmqpSettings | KafkaSettings):
        if subscription.credential is not None and settings.mechanism == "PLAIN":
            yield Mistake("/protocolsettings/x-mechanism", f"PLAIN {_IN_CLEAR.format('SCRAM-SHA-256, or a sink')}")
        return
    if subscription.credential is not None:
        yield Mistake("/sinkcredential", f"this login {_IN_CLEAR.format('a sink')}")
    if subscription.secret_headers:
        yield Mistake("/protocolsettings/x-secretheaders", f"their values {_IN_CLEAR.format('a sink')}")


def denials_in(mistakes: Iterable[Mistake]) -> Iterator[EgressDenial]:
    """The reasons for metrics among the mistakes of a subscription."""
    for mistake in mistakes:
        if mistake.message == DENIED:
            yield EgressDenial.RULE
        elif _CLEAR_TEXT in mistake.message:
            yield EgressDenial.SECRET


def _feedback_loop(subscription: Subscription, rules: ManagerRules, rule: SinkRule) -> Iterator[Mistake]:
    """Refuse a sink that is also a source, as far as the policy shows it."""
    sources = [route for address, route in rules.streams.items() if address in _source_addresses(subscription, rules)]
    if isinstance(subscription.settings, KafkaSettings):
        for route in sources:
            same = route.cluster == rule.cluster or rules.clusters[route.cluster] & set(subscription.sink.hosts)
            if same and route.topic == subscription.settings.topic:
                yield Mistake("/protocolsettings/topicname", _FEEDBACK_LOOP)
    elif rule.local is not None:
        end = _final_topic(subscription.destination.address, rules)
        if any((end.cluster, end.topic) == (route.cluster, route.topic) for route in sources if end is not None):
            yield Mistake("/sink", _FEEDBACK_LOOP)


def _source_addresses(subscription: Subscription, rules: ManagerRules) -> tuple[str, ...]:
    return tuple(rules.streams) if subscription.config.addresses is None else subscription.config.addresses


def _final_topic(address: str, rules: ManagerRules) -> KafkaRoute | None:
    """The topic of a local address, after following relays."""
    route = rules.access.end_of(rules.access.route(address))
    return route if isinstance(route, KafkaRoute) else None
