"""Makes the HTTP sinks of subscriptions, with one client per rule, and asks for consent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final
from urllib.parse import quote

from bridges.cloudevents.delivery.sink import SinkListener
from bridges.cloudevents.events.bindings.http import http_batched, http_binary, http_structured
from bridges.cloudevents.model.values import AccessToken, HttpSettings, Mode, PlainCredential, RefreshToken
from bridges.cloudevents.sinks.common.dependencies import SinkDependencies
from bridges.cloudevents.sinks.common.dialer import Dialer
from bridges.cloudevents.sinks.http.client import HttpClient
from bridges.cloudevents.sinks.http.consent import ORIGIN, Consent, request_consent
from bridges.cloudevents.sinks.http.login import Authorization, LoginServer, TokenRenewal, basic, bearer
from bridges.cloudevents.sinks.http.sink import Encode, HttpSink, HttpTarget
from bridges.cloudevents.subscription.subscription import Subscription
from gateway import __version__
from policies.egress import SinkRule
from policies.model.scopes.sinks import OAuthEntry, SinkTls
from policies.subscriptions import ManagerRules

_ENCODERS: Final[Mapping[Mode, Encode]] = {
    "binary": lambda events: http_binary(events[0]),
    "structured": lambda events: http_structured(events[0]),
    "batched": http_batched,
}
_RENEWALS: Final = 10_000
"""Number of subscriptions whose last renewal is kept."""
_MINUTE: Final = 60_000
"""In milliseconds."""


class HttpSinkFactory:
    """Makes the HTTP sinks of one manager."""

    def __init__(self, rules: ManagerRules, dependencies: SinkDependencies) -> None:
        self._rules: Final = rules
        self._dependencies: Final = dependencies
        self._clients: Final[dict[SinkRule, _SharedClient]] = {}
        self._logins: Final[dict[OAuthEntry, _SharedClient]] = {}
        self._renewals: Final[dict[str, TokenRenewal]] = {}
        """The last one of each subscription: the next version may begin with a refresh token that it has used."""

    def open(self, subscription: Subscription, rule: SinkRule, listener: SinkListener) -> HttpSink:
        """Make the sink of a subscription; must be called on the event loop."""
        settings = subscription.settings
        assert isinstance(settings, HttpSettings)
        client = self._client(rule)
        used = [client]
        target = HttpTarget(
            settings.method,
            subscription.sink.text,
            [*settings.headers, *settings.secret_headers, *self._gateway_headers(subscription)],
            subscription.delivery.timeout,
            self._authorization(subscription, used),
        )
        return HttpSink(
            client.acquire(),
            target,
            _ENCODERS[settings.mode],
            subscription.delivery.connections,
            listener,
            self._dependencies.supervisor,
            on_closed=lambda: _release(used),
        )

    def _gateway_headers(self, subscription: Subscription) -> list[tuple[str, str]]:
        handshake = self._rules.handshake
        own = [("user-agent", f"scopegate/{__version__}"), ("scopegate-subscription", quote(subscription.id))]
        return own if handshake is None else [*own, (ORIGIN, handshake.origin)]

    def _authorization(self, subscription: Subscription, used: list[_SharedClient]) -> Authorization | None:
        credential = subscription.credential
        if isinstance(credential, PlainCredential):
            return basic(credential)
        if isinstance(credential, AccessToken):
            return bearer(credential, self._dependencies.now_ms)
        if isinstance(credential, RefreshToken):
            return self._renewal(subscription, credential, used)
        return None

    def _renewal(
        self, subscription: Subscription, credential: RefreshToken, used: list[_SharedClient]
    ) -> Authorization:
        entry = next((entry for entry in self._rules.oauth if entry.endpoint == credential.endpoint), None)
        if entry is None:  # the policy has changed: use the token until it expires
            return bearer(AccessToken(credential.token, credential.expires), self._dependencies.now_ms)
        secret = "" if entry.secret is None else self._dependencies.secret(entry.secret).decode()
        if entry not in self._logins:
            self._logins[entry] = self._shared(self._dependencies.login_dialer(entry), entry.tls)
        used.append(self._logins[entry])
        client, known = self._logins[entry].acquire(), self._renewals.pop(subscription.id, None)
        if known is not None and known.continues(credential):
            self._renewals[subscription.id] = known
            return known
        save = partial(self._dependencies.save, self._rules.full_name, subscription.id)
        server = LoginServer(entry.endpoint, entry.client, secret)
        renewal = TokenRenewal(credential, server, client, save, self._dependencies.now_ms)
        self._renewals[subscription.id] = renewal
        if len(self._renewals) > _RENEWALS:
            del self._renewals[next(iter(self._renewals))]
        return renewal

    def _client(self, rule: SinkRule) -> _SharedClient:
        if rule not in self._clients:
            self._clients[rule] = self._shared(self._dependencies.dialer(rule), rule.tls)
        return self._clients[rule]

    def _shared(self, dialer: Dialer, tls: SinkTls | None) -> _SharedClient:
        client = HttpClient(dialer, self._dependencies.certificates.context(tls))
        return _SharedClient(client, partial(self._dependencies.supervisor.start, name="sink-close"))

    async def request_consent(self, subscription: Subscription, rule: SinkRule, callback: str | None) -> Consent:
        """Ask the sink for its consent, if the policy requires it."""
        handshake = self._rules.handshake
        if handshake is None or not rule.handshake:
            return Consent(True)
        rate = max(1, handshake.rate.number * _MINUTE // handshake.rate.per_ms)
        client = self._client(rule)
        url, seconds = subscription.sink.text, handshake.patience / 1000
        try:
            return await request_consent(client.acquire(), url, handshake.origin, rate, callback, seconds)
        finally:
            client.release()

    def close(self) -> None:
        """Make no more sinks; each client is closed with its last sink."""
        for client in [*self._clients.values(), *self._logins.values()]:
            client.retire()


def _release(clients: Iterable[_SharedClient]) -> None:
    for client in clients:
        client.release()


class _SharedClient:
    """A client that is closed once it is retired and has no more users."""

    def __init__(self, client: HttpClient, start: Callable[..., object]) -> None:
        self._client: Final = client
        self._start: Final = start
        self._users = 0
        self._retired = False

    def acquire(self) -> HttpClient:
        self._users += 1
        return self._client

    def release(self) -> None:
        self._users -= 1
        self._close_unused()

    def retire(self) -> None:
        self._retired = True
        self._close_unused()

    def _close_unused(self) -> None:
        if self._retired and not self._users:
            self._start(self._client.close())
