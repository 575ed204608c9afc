"""The AMQP sink over TLS: its certificate is checked, and a login goes over the checked connection only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.amqp.proton_clients import Login, receive
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.policy import KEY
from tests.support.gateway.process import free_port, wait_until
from tests.support.servers.certs import Authority
from tests.support.subscriptions.api import PATH, USERS, ApiClient, EventWriter, api_port, subscription_policy


@pytest.mark.row("CE-3.2.2.3-1")
def test_events_and_login_go_over_tls_to_the_container_of_the_certificate(
    tmp_path: Path, start_gateway: Gateways
) -> None:
    authority, other = Authority(tmp_path), Authority(tmp_path, "other-ca")
    pair, port = authority.server(), free_port()
    (tmp_path / "key").write_text(KEY)
    document = subscription_policy(tmp_path, delivery={"timeout": "4s"})
    document.data["keys"] = {"active": "k", "ring": {"k": {"file": str(tmp_path / "key")}}}
    scope = document.scope()
    tls = {"cert": str(pair.cert), "key": str(pair.key)}
    users = str(tmp_path / "users.yaml")
    scope["listen"].append({"bind": f"127.0.0.1:{port}", "tls": tls, "sasl": ["plain"], "users": users})
    scope["addresses"].append({"match": "in/**", "direct": "balanced"})
    scope["access"].append({"who": "anonymous", "may": "receive", "on": "in/**"})
    scope["access"].append({"who": "shipping", "may": "send", "on": "in/**"})
    to: dict[str, Any] = {"protocol": "amqp", "networks": ["127.0.0.0/8"]}
    scope["subscriptions"][0]["sinks"] = [
        {**to, "to": f"amqps://localhost:{port}", "tls": {"ca": str(authority.ca)}},
        {**to, "to": f"amqps://127.0.0.1:{port}", "tls": {"ca": str(other.ca)}},
    ]
    gateway = start_gateway(document.text)
    api, inbox = ApiClient(api_port(document)), receive(Login(document.edge), "in/q", 2).attached()
    login = {"credentialtype": "PLAIN", "identifier": "shipping", "secret": USERS["shipping"]}
    for id, host in (("trusted", "localhost"), ("untrusted", "127.0.0.1")):
        body = {"id": id, "protocol": "AMQP", "sink": f"amqps://{host}:{port}/in/q", "sinkcredential": login}
        made = api.request("POST", PATH, body)
        assert made.status == 201, made.body
    EventWriter(gateway).write("orders", "one", data='{"a": 1}')
    wait_until(lambda: inbox.received, "the event")
    (got,) = inbox.received
    assert (got.message.properties["cloudEvents:id"], bytes(got.message.body)) == ("one", b'{"a": 1}')

    def told(id: str) -> tuple[str, int]:
        status = api.request("GET", f"{PATH}/{id}/status").json
        return status["state"], status["events"]["delivered"]

    def reason(id: str) -> str:
        return str(api.request("GET", f"{PATH}/{id}/status").json["reason"])

    wait_until(lambda: told("trusted") == ("active", 1), "the delivery")
    refused = "its certificate is not accepted: "
    wait_until(lambda: told("untrusted") == ("failing", 0) and refused in reason("untrusted"), "the refusal")
    assert len(inbox.received) == 1
    EventWriter(gateway).write("orders", "two")
    inbox.join()
    assert [each.message.properties["cloudEvents:id"] for each in inbox.received] == ["one", "two"]
