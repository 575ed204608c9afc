"""The `Authorization` header of deliveries: Basic, and bearer tokens with renewal before expiry (OAuth 2.0, 6)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

from bridges.cloudevents.model.values import AccessToken, PlainCredential, RefreshToken
from bridges.cloudevents.sinks.http.client import HttpClient
from bridges.cloudevents.sinks.http.connection import NoAnswer
from bridges.cloudevents.sinks.http.pool import NotSent

Authorization = Callable[[bool], Awaitable[str]]
"""Returns the header's value; the argument is True if the last one was refused. Raises LoginFailed."""
_AWAY: Final = frozenset((408, 425, 429))
"""What a login server answers, beside 5xx, that says nothing of the credential."""
_RENEW_BEFORE: Final = 60_000
"""Milliseconds before its expiry at which a token is renewed, at most half of its lifetime."""
_DEFAULT_LIFETIME: Final = 3600
"""Lifetime in seconds of a token whose server does not give one."""
_MAX_LIFETIME: Final = 10 * 365 * 24 * 3600
_TIMEOUT: Final = 15.0


class LoginFailed(Exception):
    """There is no credential to send; the text says why and contains nothing from the login server."""


class LoginUnavailable(LoginFailed):
    """There is none now: the login server, or the store of renewed tokens, is away, and the credential may be good."""


class LoginServer(NamedTuple):
    """A token endpoint of the policy, and the gateway's credential there."""

    endpoint: str
    client_id: str
    client_secret: str


def basic(credential: PlainCredential) -> Authorization:
    """Send user and password with every request, without waiting for a challenge."""
    pair = f"{credential.identifier}:{credential.secret}".encode()
    value = "Basic " + base64.b64encode(pair).decode()

    async def header(rejected: bool) -> str:
        return value

    return header


def bearer(credential: AccessToken, now_ms: Callable[[], int]) -> Authorization:
    """Send a bearer token until it expires."""

    async def header(rejected: bool) -> str:
        if now_ms() >= credential.expires:
            raise LoginFailed("the access token has expired")
        return f"Bearer {credential.token}"

    return header


Save = Callable[[RefreshToken, RefreshToken], Awaitable[None]]
"""Stores the second credential, a renewed one, in place of the first; raises OSError if that fails."""


class TokenRenewal:
    """A bearer token that is renewed before it expires, and once after it was refused.

    A new refresh token is stored before the old one is discarded, and the new token is used only then.
    """

    def __init__(
        self,
        credential: RefreshToken,
        server: LoginServer,
        client: HttpClient,
        save: Save,
        now_ms: Callable[[], int],
    ) -> None:
        self._credential = credential
        self._unsaved: RefreshToken | None = None
        self._renew_before = _RENEW_BEFORE
        self._used = ""
        """The refresh token that was last sent to the login server."""
        self._server: Final = server
        self._client: Final = client
        self._save: Final = save
        self._now_ms: Final = now_ms
        self._renewing: Final = asyncio.Lock()

    async def __call__(self, rejected: bool) -> str:
        """See `Authorization`."""
        before = self._credential
        async with self._renewing:
            done = self._credential is not before  # renewed by a concurrent request
            if self._unsaved is not None or (not done and (rejected or self._due(before))):
                await self._renew()
        return f"Bearer {self._credential.token}"

    def continues(self, credential: RefreshToken) -> bool:
        """Whether this has used the refresh token of `credential`, and has, or waits for, the next one."""
        if credential.endpoint != self._server.endpoint or credential.refresh_token != self._used:
            return False
        return self._renewing.locked() or (self._unsaved or self._credential).refresh_token != self._used

    def _due(self, credential: RefreshToken) -> bool:
        return self._now_ms() >= credential.expires - self._renew_before

    async def _renew(self) -> None:
        if self._unsaved is None:
            self._unsaved = await self._exchange()
        try:
            await self._save(self._credential, self._unsaved)
        except OSError:
            raise LoginUnavailable("the renewed token cannot be stored now") from None
        self._credential, self._unsaved = self._unsaved, None

    async def _exchange(self) -> RefreshToken:
        self._used = self._credential.refresh_token
        server, form = self._server, {"grant_type": "refresh_token", "refresh_token": self._credential.refresh_token}
        login = base64.b64encode(f"{server.client_id}:{server.client_secret}".encode()).decode()
        headers = [("authorization", f"Basic {login}"), ("accept", "application/json")]
        try:
            status, body = await self._client.post_form(server.endpoint, form, headers, _TIMEOUT)
        except (NotSent, NoAnswer, ValueError):
            raise LoginUnavailable("the login server does not answer") from None
        if status != 200:
            away = status in _AWAY or status >= 500
            raise (LoginUnavailable if away else LoginFailed)(f"the login server answered {status}")
        return self._renewed(body)

    def _renewed(self, body: bytes) -> RefreshToken:
        try:
            answer = json.loads(body)
            token, life = answer["access_token"], int(answer.get("expires_in", _DEFAULT_LIFETIME))
            refresh = answer.get("refresh_token", self._credential.refresh_token)
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            raise LoginFailed("the login server's answer has no token") from None
        if not _is_token(token) or not _is_printable(refresh) or life <= 0:
            raise LoginFailed("the login server's answer has no token")
        life = min(life, _MAX_LIFETIME)
        self._renew_before = min(_RENEW_BEFORE, life * 1000 // 2)
        return RefreshToken(token, self._now_ms() + life * 1000, refresh, self._server.endpoint)


def _is_token(text: object) -> bool:
    """Whether the header may contain it (RFC 6750, 2.1)."""
    return isinstance(text, str) and _is_printable(text) and " " not in text


def _is_printable(text: object) -> bool:
    """Whether a refresh token may have this text (RFC 6749, A.17)."""
    return isinstance(text, str) and text.isascii() and text.isprintable() and text != ""
