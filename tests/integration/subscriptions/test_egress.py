"""Sinks that the policy denies: one answer whatever is there, nothing stored, and no byte to any of them (CE-P-3)."""

from __future__ import annotations

import pytest

from tests.support.gateway.gateway import Gateways
from tests.support.servers.http_sink import http_sink
from tests.support.subscriptions.api import PATH, ApiClient, api_port, sink_ports, subscription_policy

WORDS = "not allowed by the policy of this gateway"


@pytest.mark.row("CE-P-3", part="Create")
async def test_a_denied_sink_is_not_reached_and_not_told_apart(
    tmp_path_factory: pytest.TempPathFactory, start_gateway: Gateways
) -> None:
    document = subscription_policy(tmp_path_factory.mktemp("egress"))
    ports = sink_ports(document)
    manager = document.scope()["subscriptions"][0]
    names = "localhost", "127.0.0.1", "[::ffff:127.0.0.1]", "nowhere.invalid"
    hosts = [f"http://{name}:{ports[0]}" for name in names]
    denied = [{"protocol": "http", "to": host, "handshake": "off"} for host in hosts]
    allowed = f"http://127.0.0.1:{ports[1]}/in"
    literal = [{**denied[0], "to": f"{host}/**"} for host in ("http://169.254.169.254", "http://[fd00:ec2::254]")]
    manager["sinks"] = [*denied, *literal, {**denied[0], "to": f"{allowed}/**", "networks": ["127.0.0.0/8"]}]
    start_gateway(document.text)
    api = ApiClient(api_port(document))
    metadata = "http://169.254.169.254/latest/meta-data", "http://[fd00:ec2::254]/latest/meta-data"
    elsewhere = [*metadata, "http://127.0.0.1:1/", f"http://127.0.0.1:{ports[1]}/out", "https://example.com/", "http://[::1]/"]
    async with http_sink(port=ports[0]) as sink, http_sink(port=ports[1]) as other:
        bodies = set[bytes]()
        for url in (*hosts, *elsewhere):
            answer = await api.ask("POST", PATH, {"protocol": "HTTP", "sink": url})
            assert answer.status == 400
            assert answer.json["mistakes"] == [{"field": "/sink", "message": WORDS}]
            bodies.add(answer.body)
        assert len(bodies) == 1
        assert (await api.ask("GET")).status == 204
        assert not sink.connections
        assert not other.connections
        made = await api.ask("POST", PATH, {"id": "s", "protocol": "HTTP", "sink": f"{allowed}/x"})
        assert made.status == 201
        moved = await api.ask("PUT", f"{PATH}/s", {"protocol": "HTTP", "sink": hosts[0]})
        assert moved.json["mistakes"] == [{"field": "/sink", "message": WORDS}]
        assert (await api.ask("GET", f"{PATH}/s")).json == made.json
        assert not sink.connections
