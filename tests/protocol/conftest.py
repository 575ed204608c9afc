"""One gateway for the scripted peers of a module, and bystanders who must notice nothing of what those do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.policy import KEY
from tests.support.gateway.process import ports, wait_until

POLICY = """
gateway: {{id: gw-protocol, http: "127.0.0.1:{http}", state: memory}}
keys: {{active: k, ring: {{k: {{env: PROTOCOL_KEY}}}}}}
kafka: {{main: {{bootstrap: embedded, topics: {{orders: 1, sizes: 1}}}}}}
scopes:
  edge:
    listen:
      - bind: "127.0.0.1:{edge}"
        sasl: [anonymous]
        limits: {{links: 200, sessions: 4, max_frame_size: 16KiB, max_message_size: 80MiB, idle_timeout: 300s}}
      - bind: "127.0.0.1:{hasty}"
        sasl: [anonymous]
        limits: {{handshake: 2s}}
      - bind: "127.0.0.1:{quiet}"
        sasl: [anonymous]
        limits: {{idle_timeout: 4s, max_message_size: 1000B}}
    addresses:
      - {{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}
      - {{match: "svc/{{name}}", relay: core, address: "services/{{name}}", replies: auto}}
      - {{match: "chat/**", direct: balanced}}
      - {{match: "acquired/**", direct: balanced}}
      - {{match: "news/**", direct: multicast}}
    access:
      - {{who: "*", may: [send, receive, info], on: "**"}}
  core:
    listen: [{{bind: "127.0.0.1:{core}", sasl: [anonymous]}}]
    addresses:
      - {{match: "services/**", direct: balanced}}
    access:
      - {{who: "*", may: [send, receive], on: "services/**"}}
"""


@dataclass
class Served:
    """The gateway under test and its ports: `hasty` has a short handshake, `quiet` idle time-out and message size."""

    gateway: Gateway
    edge: int
    hasty: int
    quiet: int
    core: int

    def peer(self, **fields: Any) -> Peer:
        """A scripted peer in scope `edge`, through SASL, open and begin."""
        peer = Peer(self.edge)
        peer.start(**fields)
        return peer

    def pair(self, address: str, credit: int = 10) -> tuple[Peer, Peer]:
        """Sender and receiver at one address, the sender's credit already seen."""
        return attached(self.peer(), self.peer(), address, credit)


def attached(sender: Peer, receiver: Peer, address: str, credit: int = 10) -> tuple[Peer, Peer]:
    """Attach both and let the receiver grant credit; the sender waits for it."""
    receiver.attach_receiver(address)
    receiver.flow(0, link_credit=credit)
    sender.attach_sender(address)
    sender.until("flow", link_credit=credit)
    return sender, receiver


@pytest.fixture(scope="module")
def served(start_module_gateway: Gateways) -> Served:
    edge, hasty, quiet, core, http = ports(5)
    policy = POLICY.format(edge=edge, hasty=hasty, quiet=quiet, core=core, http=http)
    gateway = start_module_gateway(policy, env={"PROTOCOL_KEY": KEY})
    return Served(gateway, edge, hasty, quiet, core)


class Bystanders:
    """A sender and a receiver of the same scope that go on as if nothing happened."""

    def __init__(self, served: Served) -> None:
        self.gateway = served.gateway
        self._sender, self._receiver = served.pair("chat/bystanders", credit=10)
        self._number = 0

    def pass_a_message(self) -> None:
        """One message through the direct node and its outcome back, on the links that were there all the time."""
        body = b"bystander %d" % self._number
        self._sender.transfer(message(body))
        transfer = self._receiver.until("transfer")
        assert transfer.payload == message(body)
        self._receiver.disposition(transfer.delivery_id, "accepted")
        self._receiver.flow(0, delivery_count=self._number + 1, link_credit=10)
        self._sender.until("disposition", first=self._number, state="accepted")
        self._number += 1

    def close(self) -> None:
        self._sender.disconnect()
        self._receiver.disconnect()


@pytest.fixture(scope="module")
def bystanders(served: Served) -> Iterator[Bystanders]:
    bystanders = Bystanders(served)
    yield bystanders
    bystanders.close()


@pytest.fixture(autouse=True)
def touches_nobody_else(bystanders: Bystanders, request: pytest.FixtureRequest) -> Iterator[Bystanders]:
    """Around every test: bystanders make progress before and after, in a process that has not ended."""
    bystanders.pass_a_message()
    yield bystanders
    bystanders.pass_a_message()


@dataclass
class Watch:
    """What the gateway counts and logs during one test."""

    gateway: Gateway
    before: dict[str, float]
    lines: int

    def counted(self, name: str, by: float = 1) -> None:
        """Wait until a counter has moved by at least `by`."""
        self.gateway.wait_metric(name, lambda value: value >= self.before.get(name, 0.0) + by)

    def logged(self, event: str, **fields: object) -> dict[str, Any]:
        """Wait for a log line of this test."""
        return self.gateway.wait_log(event, after=self.lines, **fields)

    def bad_input(self, reason: str) -> None:
        """One counter, one line."""
        self.logged("bad input", reason=reason)
        self.counted(f'scopegate_bad_input_total{{reason="{reason}"}}')

    def link_refused(self, condition: str) -> None:
        self.logged("link refused", condition=condition)
        self.counted(f'scopegate_links_refused_total{{condition="{condition}",scope="edge"}}')

    def link_ended(self, condition: str) -> None:
        self.logged("link ended", condition=condition)
        self.counted(f'scopegate_links_ended_total{{condition="{condition}",scope="edge"}}')


@pytest.fixture
def watch(served: Served, touches_nobody_else: Bystanders) -> Watch:
    # What tests before have left is counted and logged when their connections have ended: all but the bystanders' two.
    def settled() -> dict[str, float]:
        metrics = served.gateway.metrics()
        return metrics if 0 < metrics.get("scopegate_connections", 0) <= 2 else {}

    before = wait_until(settled, "connections of earlier tests to end")
    return Watch(served.gateway, before, len(served.gateway.log()))
