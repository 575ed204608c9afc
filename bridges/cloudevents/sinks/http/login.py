"""The `Authorization` of deliveries: Basic, and bearer tokens that are renewed before they expire (OAuth 2.0, 6)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import aiohttp

from bridges.cloudevents.sinks.http.client import HttpClient
from bridges.cloudevents.subscription.model import AccessToken, Plain, RefreshToken

Authorization = Callable[[bool], Awaitable[str]]
"""The value of the header; True: the one before was not accepted. Raises LoginFailed."""
_EARLY: Final = 60_000
"""Milliseconds before the end of a token at which it is renewed."""
_LIFE: Final = 3600
"""Seconds that a token lives whose server does not say so."""
_PATIENCE: Final = 15.0


class LoginFailed(Exception):
    """There is no login to send; the text says why and holds nothing of the login server's."""


class LoginServer(NamedTuple):
    """A token endpoint of the policy, and the gateway's own login there."""

    endpoint: str
    client_id: str
    client_secret: str


def basic(credential: Plain) -> Authorization:
    """User and password with every request, unasked."""
    pair = f"{credential.identifier}:{credential.secret}".encode()
    value = "Basic " + base64.b64encode(pair).decode()

    async def header(rejected: bool) -> str:
        return value

    return header


def bearer(credential: AccessToken, now_ms: Callable[[], int]) -> Authorization:
    """A token until its end."""

    async def header(rejected: bool) -> str:
        if now_ms() >= credential.expires:
            raise LoginFailed("the access token has expired")
        return f"Bearer {credential.token}"

    return header


Save = Callable[[RefreshToken], Awaitable[None]]
"""Stores a renewed credential; raises OSError when that is impossible now."""


class TokenRenewal:
    """A bearer token that is renewed before its end, and once after it was not accepted.

    A new refresh token is stored before the old one is forgotten, and the new token is used only then.
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
        self._server: Final = server
        self._client: Final = client
        self._save: Final = save
        self._now_ms: Final = now_ms
        self._renewing: Final = asyncio.Lock()

    async def __call__(self, rejected: bool) -> str:
        """See `Authorization`."""
        before = self._credential
        async with self._renewing:
            done = self._credential is not before  # by another request that waited
            if self._unsaved is not None or (not done and (rejected or self._due(before))):
                await self._renew()
        return f"Bearer {self._credential.token}"

    def _due(self, credential: RefreshToken) -> bool:
        return self._now_ms() >= credential.expires - _EARLY

    async def _renew(self) -> None:
        if self._unsaved is None:
            self._unsaved = await self._exchange()
        try:
            await self._save(self._unsaved)
        except OSError:
            raise LoginFailed("the renewed token cannot be stored now") from None
        self._credential, self._unsaved = self._unsaved, None

    async def _exchange(self) -> RefreshToken:
        server, form = self._server, {"grant_type": "refresh_token", "refresh_token": self._credential.refresh_token}
        login = base64.b64encode(f"{server.client_id}:{server.client_secret}".encode()).decode()
        headers = [("authorization", f"Basic {login}"), ("accept", "application/json")]
        try:
            status, body = await self._client.post_form(server.endpoint, form, headers, _PATIENCE)
        except (aiohttp.ClientError, OSError, ValueError):
            raise LoginFailed("the login server does not answer") from None
        if status != 200:
            raise LoginFailed(f"the login server answered {status}")
        return self._renewed(body)

    def _renewed(self, body: bytes) -> RefreshToken:
        try:
            answer = json.loads(body)
            token, life = answer["access_token"], int(answer.get("expires_in", _LIFE))
            refresh = answer.get("refresh_token", self._credential.refresh_token)
        except (ValueError, KeyError, TypeError, AttributeError):
            raise LoginFailed("the login server's answer has no token") from None
        if not _is_token(token) or not isinstance(refresh, str) or life <= 0:
            raise LoginFailed("the login server's answer has no token")
        return RefreshToken(token, self._now_ms() + life * 1000, refresh, self._server.endpoint)


def _is_token(text: object) -> bool:
    """RFC 6750, 2.1: what may stand in the header."""
    return isinstance(text, str) and text.isascii() and text.isprintable() and " " not in text and text != ""
