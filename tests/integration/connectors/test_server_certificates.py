"""A container that refuses a connector's certificate: what the log says, and how often."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports, wait_until
from tests.support.servers.certs import Authority

POLICY = """
gateway: {{http: "127.0.0.1:{http}", log: json}}
scopes:
  far:
    listen:
      - bind: "127.0.0.1:{far}"
        sasl: [external, anonymous]
        tls: {{cert: "{cert}", key: "{key}", client_ca: "{ca}", require_client_cert: true}}
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    connect:
      - name: far
        to: "amqps://localhost:{far}"
        backoff: {{min: 10ms, max: 10ms}}
        tls: {{ca: "{ca}"{shown}}}
"""


@pytest.mark.parametrize("expired", [True, False], ids=["expired", "none"])
def test_a_refused_certificate_is_named_with_the_way_out_and_not_at_every_attempt(
    start_gateway: Gateways, tmp_path: Path, expired: bool
) -> None:
    authority = Authority(tmp_path)
    server, client = authority.server(), authority.expired(file="client")
    far, edge, http = ports(3)
    shown = f', cert: "{client.cert}", key: "{client.key}"' if expired else ""
    gateway = start_gateway(
        POLICY.format(
            http=http, far=far, edge=edge, cert=server.cert, key=server.key, ca=authority.ca, shown=shown
        ),
        ready=False,
    )
    expected = (str(client.cert), "expired on", "replace the file and reload") if expired else ("tls: cert, key",)
    text = gateway.wait_log("connector down", connector="far")["detail"]
    assert all(part in text for part in expected), text
    wait_until(lambda: all(part in gateway.get("/readyz")[1] for part in expected), "/readyz to say so")
    failures = 'scopegate_connector_failures_total{connector="far"}'
    gateway.wait_metric(failures, lambda count: count >= 40)
    lines = [line for line in gateway.log() if line["event"] == "connector down"]
    assert len(lines) == len({line["detail"] for line in lines}), "logged when it changes"
