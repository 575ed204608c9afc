"""Secrets of a subscription reach its sink and come out nowhere: every byte that the gateway wrote is searched."""

from __future__ import annotations

import base64
import json

import pytest

from tests.support.gateway.gateway import Gateways
from tests.support.gateway.policy import KEY
from tests.support.servers.http_sink import http_sink
from tests.support.subscriptions.api import (
    PATH,
    Answered,
    ApiClient,
    EventWriter,
    api_port,
    sink_ports,
    subscription_policy,
)

PASSWORD, HEADER = "s3cret-of-the-sink", "s3cret-of-the-header"
LOGIN = {"credentialtype": "PLAIN", "identifier": "scopegate", "secret": PASSWORD}
AUTHORIZATION = base64.b64encode(f"scopegate:{PASSWORD}".encode()).decode()


@pytest.mark.row("CE-3.2.1-14", "CE-3.2.1-15")
async def test_secrets_reach_the_sink_and_come_out_nowhere(
    tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways
) -> None:
    folder = tmp_path_factory.mktemp("secrets")
    document = subscription_policy(folder)
    (folder / "key").write_text(KEY)
    document.data["keys"] = {"active": "k", "ring": {"k": {"file": str(folder / "key")}}}
    for rule in document.scope()["subscriptions"][0]["sinks"][:2]:
        rule["allow_plain_without_tls"] = True
    first, second, closed = sink_ports(document)
    gateway = start_gateway(document.text)
    api, ops = ApiClient(api_port(document)), ApiClient(api_port(document), "ops")
    answers: list[Answered] = []

    async def ask(method: str, path: str = PATH, body: object = None, by: ApiClient = api) -> Answered:
        answers.append(await by.ask(method, path, body))
        return answers[-1]

    async with http_sink(port=first) as sink, http_sink(port=second) as other:
        whole = {
            "id": "s",
            "protocol": "HTTP",
            "sink": f"{sink.url}/in",
            "sinkcredential": LOGIN,
            "protocolsettings": {"x-secretheaders": {"x-key": HEADER}},
        }
        made = await ask("POST", PATH, whole)
        assert made.status == 201, made.body
        at = f"{PATH}/s"
        for each in (await ask("GET", at), await ask("PUT", at, made.json)):  # the answer is itself a right update
            assert each.json == made.json
        writer = EventWriter(gateway)
        writer.write("orders", "one")
        await sink.wait_for(1)
        assert sink.requests[0].header("authorization") == f"Basic {AUTHORIZATION}"
        assert sink.requests[0].header("x-key") == HEADER

        moved = await ask("PUT", at, {**made.json, "sink": f"{other.url}/in"})
        assert moved.status == 400
        fields = [each["field"] for each in moved.json["mistakes"]]
        assert sorted(fields) == ["/protocolsettings/x-secretheaders/x-key", "/sinkcredential/secret"]
        clear = await ask("POST", PATH, {**whole, "id": "t", "sink": f"http://127.0.0.1:{closed}/in"})
        fields = [each["field"] for each in clear.json["mistakes"]]
        assert (clear.status, fields) == (400, ["/sinkcredential", "/protocolsettings/x-secretheaders"])
        wrong = {**whole, "id": "t", "sinkcredential": {**LOGIN, "secret": [PASSWORD]}, "zzz": 1}
        assert (await ask("POST", PATH, wrong)).status == 400
        assert (await ask("POST", PATH, json.dumps(whole)[:-1].encode())).status == 400
        assert (await ask("POST", f"{PATH}?dry=1", {**whole, "id": "u"})).status == 200
        for path in (PATH, at, f"{at}/status"):
            assert (await ask("GET", path)).status == 200
        assert (await ask("GET", PATH, by=ops)).status == 200
        assert (await ask("POST", f"{at}/test")).status == 200
        assert (await ask("DELETE", at)).json == made.json
        assert not other.requests

    written = [each.body.decode() + json.dumps(each.headers) for each in answers]
    written += [gateway.process.text(), *(gateway.get(path)[1] for path in ("/metrics", "/readyz"))]
    assert all(written)
    for secret in (PASSWORD, HEADER, AUTHORIZATION):
        assert not [text for text in written if secret in text]
