"""Link pairs of an unmodified proton client: `$me` to services here, across the boundary, and behind a broker.

The other libraries of the suite cannot make a pair: Qpid JMS lets no application name its links, and rhea keeps the
links of a session by their name alone, so that the second half takes the place of the first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from proton import Message

from tests.support.amqp.foreign import Foreign
from tests.support.amqp.proton_clients import (
    LinkProperties,
    Login,
    Received,
    Receiving,
    echo,
    echo_with_cookie,
    respond,
)
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports
from tests.support.servers.servers import Artemis

POLICY = """
gateway: {{id: gw-pair-clients, http: "127.0.0.1:{http}", log: json}}
keys: {{active: one, ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{edge}"}}]
    addresses: [{{match: echo, service: echo}}, {{match: "**", relay: core}}]
    access: [{{who: "*", may: [send, receive], on: "**"}}]
  core:
    listen: [{{bind: "127.0.0.1:{core}"}}]
    connect:
      - name: broker
        to: "amqp://127.0.0.1:{broker}"
        sasl: {{mechanism: plain, user: admin, password: {{env: BROKER_PASSWORD}}}}
        allow_plain_without_tls: true
    addresses:
      - {{match: "svc/*", direct: balanced}}
      - {{match: "far.{{name}}", relay: broker}}
    access: [{{who: "*", may: [send, receive], on: "**"}}]
"""
ENV = {"SCOPEGATE_TEST_KEY": "k" * 43, "BROKER_PASSWORD": "admin"}


class Place(NamedTuple):
    """The ports of the scopes, and the broker behind the second."""

    edge: int
    core: int
    broker: Artemis


@pytest.fixture(scope="module")
def place(start_module_gateway: Gateways, artemis: Artemis) -> Place:
    edge, core, http = ports(3)
    policy = POLICY.format(edge=edge, core=core, http=http, broker=artemis.port)
    start_module_gateway(policy, env=ENV)
    return Place(edge, core, artemis)


class Asking(Receiving):
    """Asks with reply-to `$me`; both links have one name, one session, and say that they are paired."""

    def __init__(self, login: Login, address: str, messages: list[Message]) -> None:
        self._messages = messages
        super().__init__(login, address, len(messages), LinkProperties({"paired": True}))

    def connected(self) -> None:
        half: dict[str, Any] = {"name": "pair", "options": self._options}
        self.sender = self._container.create_sender(self.connection, self._address, **half)
        self.receiver = self._container.create_receiver(self.connection, self._address, **half)
        self.receiver.flow(self._count)

    def on_sendable(self, event: Any) -> None:
        while self._messages and self.sender.credit and self.receiver.remote_source.address is not None:
            self.sender.send(self._messages.pop(0))

    def on_link_opened(self, event: Any) -> None:
        super().on_link_opened(event)
        self.on_sendable(event)


def ask(port: int, address: str) -> list[Received]:
    """Ask three times; return the responses."""
    messages = [Message(body=f"{n}", id=f"m-{n}", correlation_id=f"c-{n}", reply_to="$me") for n in range(3)]
    return Asking(Login(port), address, messages).finish()


def bodies(received: list[Received]) -> list[object]:
    return [each.message.body for each in received]


@pytest.mark.row("CORE-10", "RA-2.3-7")
def test_the_gateways_own_service_answers_on_the_pair(place: Place) -> None:
    got = ask(place.edge, "echo")
    assert bodies(got) == ["0", "1", "2"]
    assert [each.message.correlation_id for each in got] == ["m-0", "m-1", "m-2"]  # it quotes message-ids first


@pytest.mark.row("RA-2.3-8")
@pytest.mark.parametrize("port", ["edge", "core"])
@pytest.mark.parametrize("annotated", [True, False])
def test_a_proton_service_answers_on_the_pair(place: Place, port: str, annotated: bool) -> None:
    """From the other scope, and in its own: the service knows cookies, or only reply-to."""
    address = f"svc/{port}-{annotated}"
    service = respond(Login(place.core), address, echo_with_cookie if annotated else echo, annotated=annotated)
    service.attached()
    got = ask(getattr(place, port), address)
    service.stop()
    assert bodies(got) == ["0", "1", "2"]
    assert [each.message.correlation_id for each in got] == ["c-0", "c-1", "c-2"]


@pytest.mark.row("RA-2.3-8")
@pytest.mark.parametrize("library", ["jms", "rhea"])
@pytest.mark.parametrize("port", ["edge", "core"])
def test_a_service_at_a_broker_answers_on_the_pair(place: Place, port: str, library: str) -> None:
    address = f"far.{port}-{library}"
    service = Foreign(library, place.broker.port, place.broker.user, place.broker.password)
    serving = service.run("respond", address, count=3).attached()
    got = ask(getattr(place, port), address)
    assert bodies(got) == ["re: 0", "re: 1", "re: 2"]
    assert [each.message.correlation_id for each in got] == ["c-0", "c-1", "c-2"]
    serving.finish()
