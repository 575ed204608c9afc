"""Two gateway processes that share Redis and Kafka, for tests of properties that must hold across both."""

from __future__ import annotations

from typing import NamedTuple

from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports
from tests.support.gateway.warm import OFTEN, shortened
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis

LEASE = 15.0
"""Seconds; long enough for a gateway that cannot renew it for a while, and for the test's own steps meanwhile."""
POLICY = """
gateway: {{id: {name}, http: "127.0.0.1:{http}", state: "{redis}", lease: {lease}s, drain: 1s, log: json}}
kafka: {{main: {{bootstrap: "{kafka}"}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}", advertise: "127.0.0.1:{edge}"}}]
    addresses:
      - {{match: "events/{{topic}}", kafka: main}}
      - {{match: "pend/{{topic}}", kafka: main, surplus: pend, pending_timeout: 60s, pending_limit: 1000}}
      - {{match: "sharded/{{topic}}", kafka: main, ownership: sharded, binding: assign}}
    access: [{{may: [send, receive, info]}}]
"""


class GatewayPair(NamedTuple):
    """Two gateways; `a` and `b` are the ports of their listeners."""

    first: Gateway
    second: Gateway

    @property
    def a(self) -> int:
        """The port of the first."""
        return self.first.ports[0]

    @property
    def b(self) -> int:
        """The port of the second."""
        return self.second.ports[0]


def start_sharing(start: Gateways, broker: KafkaBroker, redis: Redis, name: str, lease: float = LEASE) -> Gateway:
    """Start one of them."""
    edge, http = ports(2)
    places = {"http": http, "redis": redis.url, "kafka": broker.bootstrap, "edge": edge}
    return start(POLICY.format(name=name, lease=f"{lease:g}", **places), env=shortened(OFTEN))


def start_pair(start: Gateways, broker: KafkaBroker, redis: Redis, lease: float = LEASE) -> GatewayPair:
    """Start both."""
    return GatewayPair(*(start_sharing(start, broker, redis, name, lease) for name in ("gw-1", "gw-2")))
