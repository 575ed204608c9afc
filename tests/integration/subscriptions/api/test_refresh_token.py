"""A token that its sink refuses is renewed at the endpoint that the policy names, once, and goes on being renewed."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import ssl
from pathlib import Path
from urllib.parse import parse_qs

from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import free_port
from tests.support.servers.certs import Authority
from tests.support.servers.http_sink import NO_CONTENT, SunkRequest, http_sink, status
from tests.support.subscriptions.api import (
    PATH,
    ApiClient,
    EventWriter,
    api_port,
    eventually,
    sink_ports,
    subscription_policy,
)


async def test_a_refused_token_is_renewed_with_the_newest_refresh_token(
    tmp_path: Path, authority: Authority, start_gateway: Gateways
) -> None:
    port, pair = free_port(), authority.server("localhost")
    endpoint = f"https://localhost:{port}/token"
    (tmp_path / "client-secret").write_text("secret-of-gateway")
    oauth = {
        "endpoint": endpoint, "client": "gw", "secret": {"file": str(tmp_path / "client-secret")},
        "networks": ["127.0.0.0/8", "::1/128"], "tls": {"ca": str(authority.ca)},
    }  # fmt: skip
    document = subscription_policy(tmp_path, oauth=[oauth])
    document.scope()["subscriptions"][0]["sinks"][0]["allow_plain_without_tls"] = True
    (tmp_path / "key").write_text(base64.urlsafe_b64encode(os.urandom(32)).decode())
    document.data["keys"] = {"active": "a", "ring": {"a": {"file": str(tmp_path / "key")}}}
    gateway, valid, renewed = start_gateway(document.text), {"token-1"}, list[dict[str, list[str]]]()

    def renew(request: SunkRequest) -> bytes:
        assert (request.method, request.path) == ("POST", "/token")
        renewed.append(parse_qs(request.body.decode()))
        number = len(renewed)
        login = base64.b64encode(b"gw:secret-of-gateway").decode()
        assert request.header("authorization") == f"Basic {login}"
        answer = {"access_token": f"token-{number}", "refresh_token": f"refresh-{number}", "expires_in": 3600}
        return status(200, "content-type: application/json", body=json.dumps(answer).encode())

    def take(request: SunkRequest) -> bytes:
        scheme, _, token = (request.header("authorization") or "").partition(" ")
        assert scheme == "Bearer"
        return NO_CONTENT if token in valid else status(401)

    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)
    api, events = ApiClient(api_port(document)), EventWriter(gateway)
    async with http_sink(renew, context, port), http_sink(take, port=sink_ports(document)[0]) as sink:
        credential = {
            "credentialtype": "REFRESHTOKEN", "accesstoken": "token-0", "accesstokenexpiresutc": "2099-01-01T00:00:00Z",
            "refreshtoken": "refresh-0", "refreshtokenendpoint": endpoint,
        }  # fmt: skip
        body = {"id": "a", "protocol": "HTTP", "sink": f"{sink.url}/", "sinkcredential": credential}
        made = await api.ask("POST", PATH, body)
        assert made.status == 201, made.body

        async def delivered(count: int) -> bool:
            return bool((await api.ask("GET", f"{PATH}/a/status")).json["events"]["delivered"] == count)

        await asyncio.to_thread(events.write, "orders", "one")
        await eventually(lambda: delivered(1))
        valid.symmetric_difference_update({"token-1", "token-2"})
        await asyncio.to_thread(events.write, "orders", "two")
        await eventually(lambda: delivered(2))
        assert [each["refresh_token"] for each in renewed] == [["refresh-0"], ["refresh-1"]]
        assert {each["grant_type"][0] for each in renewed} == {"refresh_token"}
        tokens = [request.header("authorization") for request in sink.requests]
        assert tokens == [f"Bearer token-{number}" for number in (0, 1, 1, 2)]
        shown = (await api.ask("GET", f"{PATH}/a")).body + (await api.ask("GET", f"{PATH}/a/status")).body
        everything = shown.decode() + json.dumps(gateway.log()) + gateway.get("/metrics")[1]
        for secret in ("token-0", "token-1", "token-2", "refresh-0", "refresh-1", "secret-of-gateway"):
            assert secret not in everything
