"""Makes the sink of a subscription, and checks a new one: what joins the protocols with the policy."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from ipaddress import ip_address
from typing import Final

from bridges.cloudevents.delivery.answers import Answer, Verdict
from bridges.cloudevents.events.bindings.http import http_batched, http_binary, http_structured
from bridges.cloudevents.sinks.dial import NOT_ALLOWED, Dialer, EgressRefused
from bridges.cloudevents.sinks.http.client import HttpClient
from bridges.cloudevents.sinks.http.consent import ORIGIN, ask
from bridges.cloudevents.sinks.http.login import Authorization, basic, bearer
from bridges.cloudevents.sinks.http.sink import Encode, HttpSink, HttpTarget
from bridges.cloudevents.sinks.port import SendAttempt, Sink, SinkListener
from bridges.cloudevents.subscription.model import (
    AccessToken,
    HttpSettings,
    Invalid,
    Mistake,
    Plain,
    SinkCredential,
    SinkProtocol,
)
from bridges.cloudevents.subscription.subscription import Subscription
from gateway.amqp.transport.tls import client_context
from gateway.tasks import Supervisor
from policies.egress import SinkRule, address_allowed, allows
from policies.subscriptions import ManagerRules


class SinkFactory:
    """The sinks of one manager; used on the loop."""

    def __init__(self, rules: ManagerRules, supervisor: Supervisor, now_ms: Callable[[], int]) -> None:
        self.offered: Final = frozenset((SinkProtocol.HTTP,))
        """The protocols that this gateway has libraries for."""
        self._rules = rules
        self._supervisor: Final = supervisor
        self._now_ms: Final = now_ms
        self._clients: dict[SinkRule, HttpClient] = {}

    def change(self, rules: ManagerRules) -> None:
        """Go on under another policy."""
        self._rules = rules

    def open(self, subscription: Subscription, listener: SinkListener) -> Sink:
        """The sink of a subscription, connected when it is first used."""
        rule = allows(self._rules.sinks, subscription.place)
        settings = subscription.settings
        if rule is None or not isinstance(settings, HttpSettings):
            return DeniedSink(listener, self._supervisor)
        headers = [*settings.headers, *settings.secret_headers, ("user-agent", "scopegate")]
        if self._rules.handshake is not None:
            headers.append((ORIGIN, self._rules.handshake.origin))
        headers.append(("scopegate-subscription", subscription.id))
        target = HttpTarget(
            settings.method, subscription.sink.text, headers, subscription.delivery.timeout, self._login(subscription)
        )
        return HttpSink(
            self._client(rule), target, _encode(settings.mode), subscription.delivery.connections, listener,
            self._supervisor,
        )  # fmt: skip

    async def check(self, subscription: Subscription, previous: Subscription | None) -> None:
        """Whether events may go there: its addresses, and its consent; raises Invalid."""
        rule = allows(self._rules.sinks, subscription.place)
        if rule is None:
            raise Invalid((Mistake("/sink", NOT_ALLOWED),))
        if previous is not None and previous.sink == subscription.sink:
            return
        try:
            for host, port in subscription.sink.hosts:
                await self._dialer(rule).addresses(host, port)
        except EgressRefused:
            raise Invalid((Mistake("/sink", NOT_ALLOWED),)) from None
        if subscription.protocol is SinkProtocol.HTTP and rule.handshake:
            await self._consent(subscription, rule)

    async def close(self) -> None:
        """Close what is connected."""
        for client in self._clients.values():
            await client.close()

    async def _consent(self, subscription: Subscription, rule: SinkRule) -> None:
        handshake = self._rules.handshake
        if handshake is None:
            raise Invalid((Mistake("/sink", "this manager has no handshake that could ask this sink"),))
        rate = handshake.rate.number * 60_000 // handshake.rate.per_ms
        patience = handshake.patience / 1000
        consent = await ask(self._client(rule), subscription.sink.text, handshake.origin, rate, None, patience)
        if not consent.given:
            raise Invalid((Mistake("/sink", consent.reason),))

    def _client(self, rule: SinkRule) -> HttpClient:
        if rule not in self._clients:
            tls: ssl.SSLContext = client_context()
            self._clients[rule] = HttpClient(self._dialer(rule), tls)
        return self._clients[rule]

    def _dialer(self, rule: SinkRule) -> Dialer:
        return Dialer(lambda address: address_allowed(rule, ip_address(address)))

    def _login(self, subscription: Subscription) -> Authorization | None:
        credential: SinkCredential | None = subscription.credential
        if isinstance(credential, Plain):
            return basic(credential)
        return bearer(credential, self._now_ms) if isinstance(credential, AccessToken) else None


class DeniedSink:
    """A sink that the policy does not allow any more, or whose protocol is not offered: nothing is sent."""

    def __init__(self, listener: SinkListener, supervisor: Supervisor) -> None:
        self._listener: Final = listener
        self._supervisor: Final = supervisor

    @property
    def room(self) -> int:
        """See `Sink`."""
        return 1

    def send(self, attempt: SendAttempt) -> None:
        """See `Sink`."""
        self._supervisor.start(self._answer(attempt), "push")

    async def _answer(self, attempt: SendAttempt) -> None:
        self._listener.answered(attempt, Answer(Verdict.SINK_FAILED, NOT_ALLOWED, reached=False))

    async def close(self, patience: float) -> None:
        """See `Sink`."""


def _encode(mode: str) -> Encode:
    if mode == "batched":
        return http_batched
    single = http_structured if mode == "structured" else http_binary
    return lambda events: single(events[0])
