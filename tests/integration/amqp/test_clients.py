"""Unmodified clients against each kind of node: proton (Python), Qpid JMS (Java), rhea (JavaScript).

Each as ANONYMOUS on TCP and as PLAIN on TLS. Responders answer over the anonymous terminus, requesters listen on
a dynamic source, so both are shown by every request.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from proton import Message

from gateway.amqp.sasl.user_file import make_entry, put_user
from tests.support.amqp.foreign import Foreign
from tests.support.amqp.proton_clients import Failed, Login, echo, echo_with_cookie, receive, request, respond, send
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import ports
from tests.support.servers.certs import Authority
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Artemis

POLICY = """
gateway: {{id: gw-clients, http: "127.0.0.1:{http}", state: memory}}
keys:
  active: one
  ring: {{one: {{env: SCOPEGATE_TEST_KEY}}}}
kafka:
  main: {{bootstrap: "{bootstrap}"}}
scopes:
  edge:
    listen:
      - {{bind: "127.0.0.1:{plain}", sasl: [anonymous]}}
      - {{bind: "127.0.0.1:{tls}", sasl: [plain], users: "{users}", tls: {{cert: "{cert}", key: "{key}"}}}}
    addresses:
      - {{match: "chat/**", direct: balanced}}
      - {{match: "news/**", direct: multicast}}
      - {{match: "broker/**", relay: core}}
      - {{match: "svc/{{name}}", relay: core, address: "services/{{name}}", replies: auto}}
      - {{match: "events/{{topic}}", kafka: main, topic: "{{topic}}"}}
    access:
      - {{who: "*", may: [send, receive, info], on: "**"}}
  core:
    listen: [{{bind: "127.0.0.1:{core}", sasl: [anonymous]}}]
    connect:
      - name: broker
        to: "{broker}"
        sasl: {{mechanism: plain, user: admin, password: {{env: BROKER_PASSWORD}}}}
        allow_plain_without_tls: true
    addresses:
      - {{match: "broker/**", relay: broker}}
      - {{match: "services/**", direct: balanced}}
    access:
      - {{who: "*", may: [send, receive], on: "**"}}
"""
BODIES = ["hello 0", "hello 1", "hello 2"]


class Clients(NamedTuple):
    """A library and where its clients connect: `edge` as the case says, `core` always as nobody."""

    library: str
    edge: Login
    core: Login


@pytest.fixture(scope="module")
def policy_ports(
    start_module_gateway: Gateways,
    kafka_broker: KafkaBroker,
    artemis: Artemis,
    authority: Authority,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, int]:
    """One gateway for the module; returns its ports."""
    users = tmp_path_factory.mktemp("users") / "users.yaml"
    users.write_text(put_user("", "alice", make_entry("wonderland", salt=b"salt of a test!!")))
    server = authority.server()
    http, plain, tls, core = ports(4)
    files = {"users": users, "cert": server.cert, "key": server.key}
    backends = {"bootstrap": kafka_broker.bootstrap, "broker": artemis.url}
    policy = POLICY.format(http=http, plain=plain, tls=tls, core=core, **backends, **files)
    start_module_gateway(policy, env={"SCOPEGATE_TEST_KEY": "k" * 43, "BROKER_PASSWORD": artemis.password})
    return {"anonymous": plain, "plain-tls": tls, "core": core}


@pytest.fixture(params=["proton", "jms", "rhea"])
def library(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["anonymous", "plain-tls"])
def clients(
    request: pytest.FixtureRequest, library: str, policy_ports: dict[str, int], authority: Authority
) -> Clients:
    port = policy_ports[request.param]
    secret = Login(port, "alice", "wonderland", authority.ca)
    edge = secret if request.param == "plain-tls" else Login(port)
    return Clients(library, edge, Login(policy_ports["core"]))


def foreign(clients: Clients, login: Login) -> Foreign:
    return Foreign(clients.library, login.port, login.user, login.password, login.ca)


def moved(clients: Clients, address: str) -> tuple[list[str], list[str]]:
    """Send BODIES to an address that is received from; return the outcomes and what came."""
    if clients.library == "proton":
        receiver = receive(clients.edge, address, 3).attached()
        outcomes = send(clients.edge, address, [Message(body=body) for body in BODIES]).finish()
        return [each.name for each in outcomes], [each.message.body for each in receiver.finish()]
    running = foreign(clients, clients.edge).run("receive", address, count=3).attached()
    sent = foreign(clients, clients.edge).run("send", address, count=3, body="hello {n}").finish()
    return [each["outcome"] for each in sent], [each["body"] for each in running.finish()]


def request_twice(clients: Clients, address: str, service: tuple[Login, str]) -> list[tuple[object, str]]:
    """Ask a service of the same library; return correlation id and body of each response."""
    login, served = service
    if clients.library == "proton":
        responder = respond(login, served, echo).attached()
        ids = [f"request-{n}" for n in range(3)]
        requests = [Message(correlation_id=id, body=body) for id, body in zip(ids, BODIES, strict=True)]
        responses = request(clients.edge, address, requests)
        responder.stop()
        return [(each.message.correlation_id, f"re: {each.message.body!s}") for each in responses]
    running = foreign(clients, login).run("respond", served, count=3).attached()
    lines = foreign(clients, clients.edge).run("request", address, count=3, body="hello {n}").finish()
    running.finish()
    return [(line["correlation_id"], line["body"]) for line in lines]


ANSWERS = [(f"request-{n}", f"re: {body}") for n, body in enumerate(BODIES)]


def test_direct_node(clients: Clients) -> None:
    assert moved(clients, "chat/room") == (["accepted"] * 3, BODIES)


def test_multicast_node(clients: Clients) -> None:
    address = f"news/{clients.library}"
    other = receive(clients.edge, address, 3).attached()
    assert moved(clients, address) == (["accepted"] * 3, BODIES)
    assert [each.message.body for each in other.finish()] == BODIES


def test_relay_to_a_broker(clients: Clients) -> None:
    assert moved(clients, f"broker/{clients.library}") == (["accepted"] * 3, BODIES)


def test_a_service_that_takes_cookies(clients: Clients) -> None:
    """The client's library sees nothing of it: it asks and is answered."""
    responder = respond(clients.core, "services/cookies", echo_with_cookie, annotated=True).attached()
    if clients.library == "proton":
        messages = [Message(correlation_id=f"request-{n}", body=body) for n, body in enumerate(BODIES)]
        got = [each.message for each in request(clients.edge, "svc/cookies", messages)]
        answers = [(each.correlation_id, each.body) for each in got]
    else:
        client = foreign(clients, clients.edge)
        lines = client.run("request", "svc/cookies", count=3, body="hello {n}").finish()
        answers = [(line["correlation_id"], line["body"]) for line in lines]
    responder.stop()
    assert answers == [(f"request-{n}", body) for n, body in enumerate(BODIES)]


def test_request_and_response_at_a_direct_node(clients: Clients) -> None:
    assert request_twice(clients, "chat/echo", (clients.edge, "chat/echo")) == ANSWERS


def test_request_and_response_across_scopes(clients: Clients) -> None:
    assert request_twice(clients, "svc/echo", (clients.core, "services/echo")) == ANSWERS


def test_kafka_node(clients: Clients, kafka_broker: KafkaBroker) -> None:
    topic = kafka_broker.create_topic()
    assert moved(clients, f"events/{topic}") == (["accepted"] * 3, BODIES)


def test_a_wrong_password_is_refused(library: str, policy_ports: dict[str, int], authority: Authority) -> None:
    login = Login(policy_ports["plain-tls"], "alice", "wrong", authority.ca)
    if library == "proton":
        with pytest.raises(Failed, match="unauthorized"):
            receive(login, "chat/room", 1).attached()
    else:
        client = Foreign(library, login.port, login.user, login.password, login.ca)
        error = client.run("send", "chat/room").fail()
        assert "uthenticat" in str(error)
