"""The AMQP sink: an address of the scope, Artemis over a connector, and containers over connections of its own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bridges.cloudevents.delivery.answers import Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import Sink
from bridges.cloudevents.model.values import InvalidSubscription, RefreshToken
from bridges.cloudevents.sinks.common.certificates import SinkCertificates
from bridges.cloudevents.sinks.common.dependencies import SinkDependencies
from bridges.cloudevents.sinks.common.dialer import NOT_ALLOWED
from bridges.cloudevents.sinks.factory import SinkFactory
from bridges.cloudevents.subscription.parse import parse
from policies.access import AccessEntries
from policies.subscriptions import manager_rules
from policies.values.hosts import IpAddress
from tests.support.amqp.proton_clients import Login, Received, receive
from tests.support.cloudevents.answer_recorder import AnswerRecorder, attempt, event
from tests.support.gateway.in_process import InProcessGateway, served
from tests.support.gateway.policy import KEY
from tests.support.gateway.process import free_port
from tests.support.servers.flooding import flooding
from tests.support.servers.servers import Artemis

POLICY = """
gateway: {{id: gw-push, http: off}}
keys: {{active: k, ring: {{k: {{env: RING_KEY}}}}}}
kafka: {{main: {{bootstrap: embedded, topics: {{log: 1}}}}}}
scopes:
  edge:
    listen: [{{bind: "127.0.0.1:{port}", sasl: anonymous}}]
    connect:
      - {{name: broker, to: "{artemis}", allow_plain_without_tls: true,
         sasl: {{mechanism: plain, user: admin, password: {{env: BROKER_PASSWORD}}}}}}
    addresses:
      - {{match: "svc/**", direct: balanced}}
      - {{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}
    access:
      - {{who: "*", may: [send, receive], on: "svc/open"}}
      - {{who: billing, may: [send, subscribe], on: ["svc/mine", "events/log"]}}
    subscriptions:
      - name: orders
        events: events/log
        delivery: {{timeout: 8s, window: 16}}
        sinks:
          - {{protocol: amqp, local: "svc/**"}}
          - {{protocol: amqp, connector: broker, address: "push/**"}}
          - {{protocol: amqp, to: "amqp://artemis.example:{artemis_port}", networks: "127.0.0.0/8"}}
          - {{protocol: amqp, to: "amqp://private.example:{artemis_port}", networks: "127.0.0.0/8",
             allow_plain_without_tls: true}}
          - {{protocol: amqp, to: "amqp://gateway.example:{port}", networks: "127.0.0.0/8"}}
          - {{protocol: amqp, to: "amqp://nobody.example:{nobody}", networks: "127.0.0.0/8"}}
          - {{protocol: amqp, to: "amqp://hidden.example:{port}"}}
"""
DATA = b"data"


class Sinks:
    """Opens sinks in a gateway of this process."""

    def __init__(self, gateway: InProcessGateway, port: int, artemis: Artemis, nobody: int) -> None:
        self.gateway, self.port, self.artemis, self.nobody = gateway, port, artemis, nobody
        service = gateway.service
        (self._rules,) = manager_rules(service.policy)

        async def local(host: str, port: int) -> list[str]:
            return ["127.0.0.1"]

        async def unsaved(manager: str, id: str, credential: RefreshToken) -> None:
            raise OSError

        none: Collection[IpAddress] = ()
        self._parts = SinkDependencies(
            service.supervisor,
            SinkCertificates(service.policy.path, service.policy.secret),
            service.policy.secret,
            lambda: none,
            lambda cluster: {},
            service.scopes.__getitem__,
            service.memory.hub,
            service.report,
            unsaved,
            lambda: 0,
            local,
        )

    @asynccontextmanager
    async def open(
        self, sink: str, owner: str = "billing", **members: object
    ) -> AsyncIterator[tuple[Sink, AnswerRecorder]]:
        body = json.dumps({"id": "s", "protocol": "AMQP", "sink": sink, **members}).encode()
        subscription = parse(body, self._rules, owner=owner, now_ms=0)
        heard = AnswerRecorder()
        made = SinkFactory(self._rules, self._parts).open(subscription, heard)
        try:
            yield made, heard
        finally:
            await made.close(0)


@pytest.fixture
async def sinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, artemis: Artemis
) -> AsyncIterator[Sinks]:
    port, nobody = free_port(), free_port()
    file = tmp_path / "policy.yaml"
    file.write_text(
        POLICY.format(port=port, nobody=nobody, artemis=artemis.url, artemis_port=artemis.port)
    )
    monkeypatch.setenv("BROKER_PASSWORD", artemis.password)
    monkeypatch.setenv("RING_KEY", KEY)
    async with served(file, monkeypatch) as start:
        yield Sinks(await start(), port, artemis, nobody)


async def received(login: Login, address: str, count: int = 1) -> list[Received]:
    client = receive(login, address, count)
    await asyncio.to_thread(client.join)
    return client.received


async def done(heard: AnswerRecorder) -> None:
    answer = await heard.next()
    assert answer.outcome is DeliveryOutcome.DONE, answer


@pytest.mark.row("CE-3.2.2.3-1", part="local")
async def test_an_address_of_the_scope_gets_the_event(sinks: Sinks) -> None:
    client = await asyncio.to_thread(lambda: receive(Login(sinks.port), "svc/open", 1).attached())
    async with sinks.open("amqp:///svc/open") as (sink, heard):
        sink.send(attempt())
        await done(heard)
    await asyncio.to_thread(client.join)
    (got,) = client.received
    assert got.message.body == DATA
    assert got.message.properties["cloudEvents:id"] == event().attributes["id"]


async def test_the_owners_rights_decide(sinks: Sinks) -> None:
    with pytest.raises(InvalidSubscription):
        async with sinks.open("amqp:///svc/mine", owner="stranger"):
            pass
    async with sinks.open("amqp:///svc/mine") as (sink, heard):
        # as after a reload that takes the right away
        sinks.gateway.service.scopes["edge"].rules._access = AccessEntries(())
        sink.send(attempt())
        assert (await heard.next()).outcome is DeliveryOutcome.CREDENTIAL


async def test_a_node_without_receiver_is_waited_for(sinks: Sinks) -> None:
    async with sinks.open("amqp:///svc/open") as (sink, heard):
        for number in range(3):
            sink.send(attempt(str(number).encode(), number))
        got = await received(Login(sinks.port), "svc/open", 3)
        for _ in range(3):
            await done(heard)
    assert [each.message.body for each in got] == [b"0", b"1", b"2"]


@pytest.mark.row("CE-3.2.2.3-1", "CE-3.2.2.3-2", part="a container")
async def test_a_queue_behind_a_connector_gets_the_event(sinks: Sinks) -> None:
    broker = sinks.artemis
    async with sinks.open(f"{broker.url}/push/q1") as (sink, heard):
        for number in range(40):
            while not sink.free_slots:
                await done(heard)
            sink.send(attempt(str(number).encode(), number))
        while sink.free_slots < 16:
            await done(heard)
    login = Login(broker.port, broker.user, broker.password)
    got = await received(login, "push/q1", 40)
    assert all(each.message.durable for each in got), "else a restart of the broker loses what it has accepted"
    assert [each.message.body for each in got] == [str(number).encode() for number in range(40)]


@pytest.mark.row("CE-3.2.2.3-3", "CE-3.2.2.3-5", part="on the wire")
async def test_a_connection_of_its_own_names_its_link_as_asked(sinks: Sinks) -> None:
    settings = {"address": "svc/open", "linkname": "my-link", "linkproperties": {"team": "a", "n": 7}}
    client = await asyncio.to_thread(lambda: receive(Login(sinks.port), "svc/open", 1).attached())
    url = f"amqp://gateway.example:{sinks.port}"
    async with sinks.open(url, protocolsettings=settings) as (sink, heard):
        sink.send(attempt())
        await done(heard)
        (link,) = [link for link in sinks.gateway.service.links() if link.name == "my-link"]
        assert (link.properties["team"], link.properties["n"]) == ("a", 7)
    await asyncio.to_thread(client.join)
    assert client.received[0].message.body == DATA


@pytest.mark.row("CE-3.2.1-15")
async def test_a_password_is_sent_in_the_clear_only_if_the_policy_says_so(sinks: Sinks) -> None:
    broker = sinks.artemis
    login = {"credentialtype": "PLAIN", "identifier": broker.user, "secret": broker.password}
    async with sinks.open(f"amqp://artemis.example:{broker.port}/q", sinkcredential=login) as (sink, heard):
        sink.send(attempt())
        assert await heard.next() == Answer(DeliveryOutcome.CREDENTIAL, "the container does not accept the login")
    async with sinks.open(f"amqp://private.example:{broker.port}/q", sinkcredential=login) as (sink, heard):
        sink.send(attempt())
        await done(heard)


@pytest.mark.parametrize("greeting", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"AMQP\x03\x01\x00\x00" + b"\xff" * 40])
async def test_a_server_that_is_no_container_does_not_refuse_the_login(sinks: Sinks, greeting: bytes) -> None:
    """So that the subscription is not suspended while it is there."""
    async with flooding(sinks.nobody, greeting, b"", b" ", 0), sinks.open(
        f"amqp://nobody.example:{sinks.nobody}/q"
    ) as (sink, heard):
        sink.send(attempt())
        reason = "the container did not answer the login"
        assert await heard.next() == Answer(DeliveryOutcome.SINK_FAILED, reason, reached=False)


@pytest.mark.row("CE-3.2.2.3-4", part="settled")
async def test_settled_events_wait_for_no_outcome(sinks: Sinks) -> None:
    settings = {"sendersettlementmode": "settled"}
    client = await asyncio.to_thread(lambda: receive(Login(sinks.port), "svc/open", 1).attached())
    url = f"amqp://gateway.example:{sinks.port}/svc/open"
    async with sinks.open(url, protocolsettings=settings) as (sink, heard):
        sink.send(attempt())
        await done(heard)
        await asyncio.to_thread(client.join)
    assert client.received[0].message.body == DATA


async def test_a_refused_link_is_told_by_its_condition(sinks: Sinks) -> None:
    async with sinks.open(f"amqp://gateway.example:{sinks.port}/nowhere/1") as (sink, heard):
        sink.send(attempt())
        answer = await heard.next()
        assert answer == Answer(
            DeliveryOutcome.SINK_FAILED, "the sink has ended or refused the link with amqp:not-found"
        ), "said by condition alone: the sink's words are not shown"


@pytest.mark.row("CE-P-3", part="AMQP")
async def test_nothing_is_connected_that_is_not_allowed(sinks: Sinks) -> None:
    hidden, nobody = f"amqp://hidden.example:{sinks.port}/svc/open", f"amqp://nobody.example:{sinks.nobody}/q"
    async with sinks.open(hidden) as one, sinks.open(nobody) as other:
        for sink, _ in (one, other):
            sink.send(attempt())
        for (_, heard), reason in ((one, NOT_ALLOWED), (other, "connection refused")):
            assert await heard.next() == Answer(DeliveryOutcome.SINK_FAILED, reason, reached=False)
