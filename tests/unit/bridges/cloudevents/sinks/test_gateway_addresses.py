"""The gateway's own addresses, at which no sink may be unless a rule names their network."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from bridges.cloudevents.sinks.gateway_addresses import gateway_addresses, gateway_hosts
from tests.support.gateway.policy import load_text

POLICY = """
gateway: {state: "redis://redis.internal:6379/0", http: "127.0.0.9:8672"}
kafka:
  main: {bootstrap: "k1.internal:9092,k2.internal:9092"}
  tests: {bootstrap: embedded}
scopes:
  edge:
    listen: [{bind: "192.0.2.7:5672"}]
    api: [{bind: "192.0.2.8:8443", auth: anonymous}]
"""


@pytest.mark.row("CE-P-3", part="the gateway's own addresses")
def test_listeners_kafka_and_redis_are_the_gateways_own() -> None:
    hosts = gateway_hosts(load_text(POLICY).model)
    assert hosts == {"127.0.0.9", "192.0.2.7", "192.0.2.8", "k1.internal", "k2.internal", "redis.internal"}


def test_names_are_resolved_and_wildcards_are_every_interface() -> None:
    assert gateway_addresses(frozenset(("192.0.2.7", "no.such.host.invalid"))) == {ip_address("192.0.2.7")}
    assert ip_address("127.0.0.1") in gateway_addresses(frozenset(("localhost",)))
    assert ip_address("127.0.0.1") in gateway_addresses(frozenset(("0.0.0.0",)))
