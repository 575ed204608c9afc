"""Makes the sink of a subscription by its protocol, if the policy allows it."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.metrics import ConsentResult
from bridges.cloudevents.delivery.sink import SendAttempt, Sink, SinkGrant, SinkListener
from bridges.cloudevents.model.values import InvalidSubscription, Mistake, SinkProtocol
from bridges.cloudevents.sinks.common.dependencies import SinkDependencies
from bridges.cloudevents.sinks.common.dialer import EgressRefused
from bridges.cloudevents.sinks.consent_rate_limiter import ConsentRateLimiter
from bridges.cloudevents.sinks.http.consent import Consent
from bridges.cloudevents.sinks.http.factory import HttpSinkFactory
from bridges.cloudevents.subscription.policy_check import DENIED, clear_text_secrets, sink_rule_of
from bridges.cloudevents.subscription.subscription import Subscription
from policies.egress import EgressDenial, SinkRule
from policies.subscriptions import ManagerRules

if TYPE_CHECKING:
    from bridges.cloudevents.sinks.kafka import KafkaClients

Opener = Callable[[Subscription, SinkRule, SinkListener], Sink]


class SinkFactory:
    """Makes the sinks of one manager under the current policy."""

    def __init__(self, rules: ManagerRules, dependencies: SinkDependencies) -> None:
        self.protocols: Final = installed_protocols()
        self._rules = rules
        self._dependencies = dependencies
        self._http = HttpSinkFactory(rules, dependencies)
        self._kafka: KafkaClients | None = None
        self._limits: Final = ConsentRateLimiter()

    def reconfigure(self, rules: ManagerRules, dependencies: SinkDependencies) -> None:
        """Continue under another policy; open sinks do not change until they are closed."""
        self._http.close()
        self._rules, self._dependencies, self._http = rules, dependencies, HttpSinkFactory(rules, dependencies)

    def open(self, subscription: Subscription, listener: SinkListener) -> Sink:
        """Make the sink; if the policy denies its place, it fails every attempt."""
        rule = sink_rule_of(subscription, self._rules)
        if rule is None:
            self._dependencies.metrics.egress_denied(EgressDenial.RULE)
            return _DeniedSink(listener, Answer(DeliveryOutcome.SINK_FAILED, DENIED, reached=False))
        for mistake in clear_text_secrets(subscription, rule):
            self._dependencies.metrics.egress_denied(EgressDenial.SECRET)
            return _DeniedSink(listener, Answer(DeliveryOutcome.CREDENTIAL, mistake.message))
        return self._opener(subscription.protocol)(subscription, rule, listener)

    def _opener(self, protocol: SinkProtocol) -> Opener:
        """Import the library of a protocol with its first sink."""
        if protocol is SinkProtocol.HTTP:
            return self._http.open
        if protocol in (SinkProtocol.MQTT3, SinkProtocol.MQTT5):
            from bridges.cloudevents.sinks.mqtt.factory import open_mqtt

            return lambda subscription, rule, listener: open_mqtt(self._dependencies, subscription, rule, listener)
        if protocol is SinkProtocol.NATS:
            from bridges.cloudevents.sinks.nats import open_nats

            return lambda subscription, rule, listener: open_nats(self._dependencies, subscription, rule, listener)
        if protocol is SinkProtocol.AMQP:
            from bridges.cloudevents.sinks.amqp.factory import open_amqp

            scope = self._rules.scope
            return lambda subscription, rule, listener: open_amqp(
                self._dependencies, scope, subscription, rule, listener
            )
        from bridges.cloudevents.sinks.kafka import KafkaClients, open_kafka

        clients = self._kafka = self._kafka or KafkaClients()
        return lambda subscription, rule, listener: open_kafka(
            self._dependencies, clients, subscription, rule, listener
        )

    async def check(
        self, subscription: Subscription, previous: Subscription | None, granted: float | None, callback: str | None
    ) -> SinkGrant:
        """Check that the policy allows the sink, and that an HTTP sink consents; raises InvalidSubscription.

        `callback`: where the sink may consent later. The error is the same if the policy denies the place or its host
        does not resolve to an allowed address. An unchanged sink is not asked again.
        """
        rule = sink_rule_of(subscription, self._rules)
        if rule is None:
            raise InvalidSubscription((Mistake("/sink", DENIED),))
        if previous is not None and previous.sink == subscription.sink:
            return SinkGrant(granted)
        if subscription.protocol is not SinkProtocol.KAFKA:  # a rule names brokers exactly, and these return the others
            await self._check_resolution(subscription, rule)
        if subscription.protocol is SinkProtocol.HTTP and rule.handshake:
            return await self._request_consent(subscription, rule, callback)
        return SinkGrant()

    async def _request_consent(self, subscription: Subscription, rule: SinkRule, callback: str | None) -> SinkGrant:
        if self._rules.handshake is None:
            raise InvalidSubscription((Mistake("/sink", DENIED),))
        self._count_consent_request(subscription)
        consent = await self._http.request_consent(subscription, rule, callback)
        pending = not consent.granted and consent.answered and callback is not None
        self._dependencies.metrics.consent_requested(_result(consent, pending=pending))
        if not (consent.granted or pending):
            raise InvalidSubscription((Mistake("/sink", consent.reason),))
        return SinkGrant(consent.rate, pending)

    def _count_consent_request(self, subscription: Subscription) -> None:
        ((host, _),) = subscription.sink.hosts
        wait = self._limits.take(subscription.owner, host, self._dependencies.now_ms() / 1000)
        if wait is not None:
            self._dependencies.metrics.consent_requested(ConsentResult.LIMITED)
            text = f"too many sinks were asked for their consent; try again in {math.ceil(wait)} s"
            raise InvalidSubscription((Mistake("/sink", text),))

    async def _check_resolution(self, subscription: Subscription, rule: SinkRule) -> None:
        if rule.connector is not None:
            return
        for host, port in subscription.sink.hosts:
            try:
                await self._dependencies.dialer(rule).addresses(host, port)
            except EgressRefused:
                raise InvalidSubscription((Mistake("/sink", DENIED),)) from None

    def close(self) -> None:
        """Make no more sinks; open ones are kept until they are closed."""
        self._http.close()


def _result(consent: Consent, *, pending: bool) -> ConsentResult:
    if consent.granted:
        return ConsentResult.CONSENTED
    if pending:
        return ConsentResult.AWAITED
    return ConsentResult.REFUSED if consent.answered else ConsentResult.UNANSWERED


class _DeniedSink:
    """A sink that the policy denies."""

    def __init__(self, listener: SinkListener, answer: Answer) -> None:
        self._listener: Final = listener
        self._answer: Final = answer
        self.free_slots = 1

    def send(self, attempt: SendAttempt) -> None:
        """See `Sink`."""
        asyncio.get_running_loop().call_soon(self._listener.on_answer, attempt, self._answer)

    async def close(self, grace: float) -> None:
        """See `Sink`."""
        self.free_slots = 0


def installed_protocols() -> frozenset[SinkProtocol]:
    """The protocols whose libraries are installed."""
    extras = {SinkProtocol.MQTT3: "paho", SinkProtocol.MQTT5: "paho", SinkProtocol.NATS: "nats"}
    return frozenset(each for each in SinkProtocol if each not in extras or find_spec(extras[each]) is not None)
