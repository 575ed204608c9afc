"""Logins at HTTP sinks: Basic, tokens with an end, and tokens that are renewed (OAuth 2.0, 6)."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from urllib.parse import parse_qs

import pytest

from bridges.cloudevents.model.values import AccessToken, PlainCredential, RefreshToken
from bridges.cloudevents.sinks.common.dialer import Dialer
from bridges.cloudevents.sinks.http.client import HttpClient
from bridges.cloudevents.sinks.http.login import (
    LoginFailed,
    LoginServer,
    LoginUnavailable,
    TokenRenewal,
    basic,
    bearer,
)
from tests.support.servers.http_sink import HttpSinkServer, SunkRequest, http_sink, status


class Clock:
    now = 1_000_000

    def __call__(self) -> int:
        return self.now


class Saved:
    """Keeps what is stored; may fail."""

    def __init__(self) -> None:
        self.credentials: list[RefreshToken] = []
        self.failing = False

    async def __call__(self, before: RefreshToken, credential: RefreshToken) -> None:
        if self.failing:
            raise OSError("away")
        self.credentials.append(credential)


def token_answer(**members: object) -> bytes:
    return status(200, "content-type: application/json", body=json.dumps(members).encode())


@asynccontextmanager
async def renewal(server: HttpSinkServer, clock: Clock, saved: Saved) -> AsyncIterator[TokenRenewal]:
    client = HttpClient(Dialer(lambda address: True), ssl.create_default_context())
    credential = RefreshToken("old", 1_100_000, "refresh-1", server.url)
    try:
        yield TokenRenewal(credential, LoginServer(f"{server.url}/token", "gw", "s3cret"), client, saved, clock)
    finally:
        await client.close()


async def test_basic_is_sent_unasked() -> None:
    assert await basic(PlainCredential("scopegate", "pä:ss"))(False) == "Basic c2NvcGVnYXRlOnDDpDpzcw=="


async def test_a_token_is_sent_until_its_end() -> None:
    clock = Clock()
    header = bearer(AccessToken("abc", 1_000_001), clock)
    assert await header(False) == "Bearer abc"
    clock.now = 1_000_001
    with pytest.raises(LoginFailed, match="expired"):
        await header(False)


async def test_a_token_is_renewed_a_minute_before_its_end() -> None:
    clock, saved = Clock(), Saved()
    answer = token_answer(access_token="new", expires_in=300, refresh_token="refresh-2")
    async with http_sink(lambda request: answer) as server, renewal(server, clock, saved) as header:
        assert await header(False) == "Bearer old"
        clock.now = 1_040_000
        assert await header(False) == "Bearer new"
        (request,) = server.requests
        assert parse_qs(request.body.decode()) == {"grant_type": ["refresh_token"], "refresh_token": ["refresh-1"]}
        assert request.header("authorization") == "Basic Z3c6czNjcmV0"
    assert saved.credentials == [RefreshToken("new", 1_340_000, "refresh-2", f"{server.url}/token")]


async def test_a_token_of_a_short_life_is_used_for_half_of_it() -> None:
    """It was due at once, and each event had a renewal of its own."""
    clock, saved = Clock(), Saved()
    clock.now = 1_100_000
    answer = token_answer(access_token="new", expires_in=60, refresh_token="refresh-2")
    async with http_sink(lambda request: answer) as server, renewal(server, clock, saved) as header:
        for seconds in (0, 1, 29):
            clock.now = 1_100_000 + seconds * 1000
            assert await header(False) == "Bearer new"
        assert len(server.requests) == 1
        clock.now = 1_130_000
        assert await header(False) == "Bearer new"
        assert len(server.requests) == 2


async def test_a_token_that_lasts_for_ever_is_stored_with_an_end() -> None:
    saved, answer = Saved(), token_answer(access_token="new", expires_in=10**15)
    async with http_sink(lambda request: answer) as server, renewal(server, Clock(), saved) as header:
        assert await header(True) == "Bearer new"
    assert datetime.fromtimestamp(saved.credentials[0].expires / 1000, UTC).year == 1979  # the clock began in 1970


async def test_many_that_wait_are_served_by_one_renewal() -> None:
    async def slow(request: SunkRequest) -> bytes:
        await asyncio.sleep(0.05)
        return token_answer(access_token="new")

    saved = Saved()
    async with http_sink(slow) as server, renewal(server, Clock(), saved) as header:
        assert set(await asyncio.gather(*(header(True) for _ in range(20)))) == {"Bearer new"}
        assert len(server.requests) == 1
    assert saved.credentials[0].refresh_token == "refresh-1", "kept where the answer has none"


async def test_a_token_that_cannot_be_stored_is_not_used_and_not_asked_for_again() -> None:
    saved = Saved()
    saved.failing = True
    async with (
        http_sink(lambda request: token_answer(access_token="new", refresh_token="refresh-2")) as server,
        renewal(server, Clock(), saved) as header,
    ):
        with pytest.raises(LoginUnavailable, match="stored"):
            await header(True)
        saved.failing = False
        assert await header(False) == "Bearer new"
        assert len(server.requests) == 1, "the refresh token may be good for one use only"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        status(400, body=b'{"error": "invalid_grant", "error_description": "secret-of-the-server"}'),
        status(302, "location: http://127.0.0.1:1/"),
        status(200, body=b"no JSON secret-of-the-server"),
        status(200, body=b"[]"),
        token_answer(),
        token_answer(access_token=5),
        token_answer(access_token=""),
        token_answer(access_token="a b"),
        token_answer(access_token="a\r\nx: y"),
        token_answer(access_token="new", expires_in="soon"),
        token_answer(access_token="new", expires_in=-1),
        token_answer(access_token="new", refresh_token=7),
        token_answer(access_token="new", refresh_token=""),
        token_answer(access_token="new", refresh_token="\ud800"),
        status(200, body=b'{"access_token": "new", "expires_in": 1e999}'),
        status(200, body=b'{"access_token": "new", "expires_in": NaN}'),
        status(200, body=b"[" * 60_000),
    ],
)
async def test_what_the_login_server_says_instead_is_not_told(answer: bytes | None) -> None:
    async with http_sink(lambda request: answer) as server, renewal(server, Clock(), Saved()) as header:
        with pytest.raises(LoginFailed) as failed:
            await header(True)
    assert "secret-of-the-server" not in str(failed.value)
    assert "s3cret" not in str(failed.value)


@pytest.mark.parametrize("code", [None, 408, 425, 429, 500, 502, 503, 504])
async def test_a_login_server_that_is_away_says_nothing_of_the_credential(code: int | None) -> None:
    answers = [None if code is None else status(code), token_answer(access_token="new")]
    async with http_sink(lambda request: answers.pop(0)) as server, renewal(server, Clock(), Saved()) as header:
        with pytest.raises(LoginUnavailable):
            await header(True)
        assert await header(True) == "Bearer new"


@pytest.mark.parametrize("code", [302, 400, 401, 403, 404])
async def test_a_login_server_that_refuses_means_the_credential(code: int) -> None:
    async with http_sink(lambda request: status(code)) as server, renewal(server, Clock(), Saved()) as header:
        with pytest.raises(LoginFailed) as failed:
            await header(True)
    assert not isinstance(failed.value, LoginUnavailable)


async def test_a_version_with_a_used_refresh_token_goes_on_with_the_next_one() -> None:
    clock, saved = Clock(), Saved()
    answer = token_answer(access_token="new", expires_in=300, refresh_token="refresh-2")
    async with http_sink(lambda request: answer) as server, renewal(server, clock, saved) as header:
        old = RefreshToken("old", 1_100_000, "refresh-1", f"{server.url}/token")
        assert not header.continues(old), "its own token is not used yet"
        saved.failing, clock.now = True, 1_040_000
        with pytest.raises(LoginFailed, match="stored"):
            await header(False)
        assert header.continues(old)
        assert not header.continues(replace(old, endpoint="https://elsewhere/token"))
        assert not header.continues(replace(old, refresh_token="refresh-2")), "the next one is not used yet"
        saved.failing = False
        assert await header(False) == "Bearer new"
        assert header.continues(old)
        assert len(server.requests) == 1
