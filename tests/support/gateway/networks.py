"""The two networks of docs/guide/two-networks.md: its policy files on free ports, with taps on every wire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.support.amqp.proton_clients import Login
from tests.support.amqp.wiretap import Wiretap
from tests.support.gateway.crossing import KEY
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import ports
from tests.support.servers.servers import Artemis

EXAMPLES = Path(__file__).resolve().parents[3] / "policies" / "examples"
ENV = {"SCOPEGATE_KEY_A": KEY, "SCOPEGATE_KEY_B": KEY[::-1], "BROKER_PASSWORD": "admin"}
RESPONSES = "responses.gateway-b"


class Networks(NamedTuple):
    """Where clients attach at gateway A, both gateways and brokers, and the wires: A's, the transit, B's."""

    port: int
    a: Gateway
    b: Gateway
    broker_a: Artemis
    broker: Artemis
    wire_a: Wiretap
    transit: Wiretap
    wire: Wiretap

    @property
    def before(self) -> Login:
        """Broker A itself."""
        return Login(self.broker_a.port, self.broker_a.user, self.broker_a.password)

    @property
    def beyond(self) -> Login:
        """Broker B itself."""
        return Login(self.broker.port, self.broker.user, self.broker.password)


def example(name: str, replaced: dict[int, int]) -> str:
    """Return an example policy with other ports."""
    text = (EXAMPLES / name).read_text()
    for port, other in replaced.items():
        text = text.replace(f":{port}", f":{other}")
    return text


@contextmanager
def networks(
    gateways: Gateways, broker_a: Artemis, broker_b: Artemis, own: str = "responses/gateway-a"
) -> Iterator[Networks]:
    """Start both gateways; `own` is where gateway A takes responses at gateway B."""
    clients, transit, http_a, http_b = ports(4)
    with Wiretap(broker_a.port) as wire_a, Wiretap(transit) as between, Wiretap(broker_b.port) as wire_b:
        # Two gateways that read one queue take responses for each other: only the first is called gateway-b.
        queue = RESPONSES if own != "dynamic" else "responses.own"
        policy = example("network-b.yaml", {5772: transit, 8772: http_b, 5872: wire_b.port})
        b = gateways(policy.replace(RESPONSES, queue), env=ENV)
        policy = example("network-a.yaml", {5672: clients, 5772: between.port, 8672: http_a, 5871: wire_a.port})
        policy = policy.replace("address: responses/gateway-a", f"address: {own}")
        if own == "dynamic":
            policy = policy.replace("from: svc.echo", "from: svc.own")
        a = gateways(policy, env=ENV)
        yield Networks(clients, a, b, broker_a, broker_b, wire_a, between, wire_b)
