"""Kafka with TLS and authentication, on the real process and a real broker (issue 6, item 12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
)

from tests.support.amqp.links import outcomes, receiving, refusal, sending
from tests.support.amqp.messages import message
from tests.support.amqp.proton_clients import Login, receive, send
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.gateway.warm import IMPATIENT, shortened
from tests.support.plugins.fixtures import served
from tests.support.servers.kafka import new_producer
from tests.support.servers.secured_kafka import PASSWORD, USER, SecuredKafka, TokenEndpoint

WRONG = "some-other-phrase-9"
LOGINS = "plain", "scram-sha-256", "scram-sha-512", "oauthbearer", "mtls"


@pytest.fixture(scope="module")
def broker() -> Iterator[SecuredKafka]:
    yield from served(SecuredKafka())


@pytest.fixture(scope="module")
def tokens() -> Iterator[TokenEndpoint]:
    endpoint = TokenEndpoint()
    yield endpoint
    endpoint.stop()


def cluster(broker: SecuredKafka, tokens: TokenEndpoint, login: str) -> dict[str, Any]:
    """A cluster of the policy with this kind of login; its password is in a file or the environment."""
    tls: dict[str, Any] = {"ca": str(broker.authority.ca)}
    if login == "mtls":
        own = broker.authority.client("gateway")
        return {"bootstrap": broker.mtls, "security": {"tls": {**tls, "cert": str(own.cert), "key": str(own.key)}}}
    sasl: dict[str, Any] = {"mechanism": login, "user": USER, "password": {"env": "KAFKA_PASSWORD"}}
    if login == "oauthbearer":
        sasl["token_url"] = tokens.url
    return {"bootstrap": broker.sasl, "security": {"tls": tls, "sasl": sasl}}


def policy(where: dict[str, Any]) -> Document:
    document = Document()
    document.kafka(**where)
    return document


def reasons(gateway: Gateway) -> list[str]:
    """The logged reasons why the cluster is down."""
    return [line["reason"] for line in gateway.log() if line.get("event") == "kafka down"]


def hidden(gateway: Gateway) -> None:
    """No password is in the log, in `/readyz` or in `/metrics`."""
    seen = [gateway.process.text(), gateway.get("/readyz")[1], gateway.get("/metrics")[1]]
    assert not [text for text in seen if PASSWORD in text or WRONG in text]


@pytest.mark.parametrize("login", LOGINS)
def test_each_way_in(start_gateway: Gateways, broker: SecuredKafka, tokens: TokenEndpoint, login: str) -> None:
    document, topic = policy(cluster(broker, tokens, login)), broker.create_topic()
    gateway = start_gateway(document.text, env={"KAFKA_PASSWORD": PASSWORD})
    here = Login(document.edge)
    receiver = receive(here, f"events/{topic}", 1)
    receiver.attached()
    (outcome,) = send(here, f"events/{topic}", [message_of("x")]).finish()
    assert outcome.name == "accepted"
    assert [received.message.body for received in receiver.finish()] == ["x"]
    hidden(gateway)


def message_of(text: str) -> Any:
    from proton import Message

    return Message(body=text)


def sent(port: int, address: str, body: bytes) -> str:
    """What becomes of a message; an impatient gateway releases it if Kafka stands still for a second."""
    with sending(port, address) as sender:
        sender.transfer(message(body))
        return outcomes(sender, 1)[0]


@pytest.mark.parametrize("login", [login for login in LOGINS if login != "mtls"])
def test_wrong_credentials_are_said_until_they_are_right(
    start_gateway: Gateways, broker: SecuredKafka, tokens: TokenEndpoint, login: str
) -> None:
    where, topic = cluster(broker, tokens, login), broker.create_topic()
    secret = broker.folder / f"{login}.password"
    secret.write_text(f"{WRONG}\n")
    where["security"]["sasl"]["password"] = {"file": str(secret)}
    document = policy(where)
    gateway = start_gateway(document.text, ready=False, env=shortened(IMPATIENT))
    said = "OAUTHBEARER" if login == "oauthbearer" else "uthentication"
    wait_until(lambda: said in gateway.get("/readyz")[1], f"/readyz says {said}")
    wait_until(lambda: any(said in reason for reason in reasons(gateway)), "the log says it, too")
    assert len(reasons(gateway)) <= 20
    assert not gateway.is_ready()
    address = f"events/{topic}"
    assert sent(document.edge, address, b"early") == "released"
    assert refusal(document.edge, address) == "amqp:internal-error"
    hidden(gateway)
    secret.write_text(PASSWORD)
    gateway.reload()
    wait_until(gateway.is_ready, "the cluster with the right password")
    wait_until(lambda: sent(document.edge, address, b"late") == "accepted", "a message to be accepted")
    hidden(gateway)


def test_a_broker_of_another_authority_is_not_believed(
    start_gateway: Gateways, broker: SecuredKafka, tokens: TokenEndpoint
) -> None:
    from tests.support.servers.certs import Authority

    where = cluster(broker, tokens, "scram-sha-256")
    where["security"]["tls"]["ca"] = str(Authority(broker.folder, "stranger").ca)
    document = policy(where)
    gateway = start_gateway(document.text, ready=False, env={"KAFKA_PASSWORD": PASSWORD})
    wait_until(lambda: "certificate" in gateway.get("/readyz")[1], "/readyz names the certificate")
    wait_until(lambda: any("certificate" in reason for reason in reasons(gateway)), "the log says it, too")
    where["security"]["tls"]["verify"] = False
    trusting = policy(where)
    start_gateway(trusting.text, env={"KAFKA_PASSWORD": PASSWORD})  # returns when it is ready


def deny(broker: SecuredKafka, topic: str, operation: AclOperation) -> None:
    admin = broker.admin()
    where = ResourceType.TOPIC, topic, ResourcePatternType.LITERAL
    rules = [
        AclBinding(*where, f"User:{USER}", "*", operation, AclPermissionType.DENY),
        AclBinding(*where, "User:*", "*", AclOperation.ALL, AclPermissionType.ALLOW),
    ]
    for answer in admin.create_acls(rules).values():
        answer.result(PATIENCE)
    broker.take_changes()


def test_what_kafka_does_not_allow_the_peer_learns(
    start_gateway: Gateways, broker: SecuredKafka, tokens: TokenEndpoint
) -> None:
    document = policy(cluster(broker, tokens, "scram-sha-512"))
    unwritable, unreadable, unseen = (broker.create_topic() for _ in range(3))
    deny(broker, unwritable, AclOperation.WRITE)
    deny(broker, unreadable, AclOperation.READ)
    deny(broker, unseen, AclOperation.DESCRIBE)
    gateway = start_gateway(document.text, env={"KAFKA_PASSWORD": PASSWORD})
    sender = sending(document.edge, f"events/{unwritable}")
    sender.transfer(message(b"no"))
    answer = sender.until("disposition")
    assert (answer.state.name, answer.state["error"]["condition"]) == ("rejected", "amqp:unauthorized-access")
    receiver = receiving(document.edge, f"events/{unreadable}")
    receiver.until("detach", closed=True, error="amqp:unauthorized-access")
    assert refusal(document.edge, f"events/{unseen}") == "amqp:unauthorized-access"
    assert gateway.is_ready()


def test_each_scope_has_its_own_cluster(
    start_gateway: Gateways, broker: SecuredKafka, tokens: TokenEndpoint
) -> None:
    topic = broker.create_topic()
    document = policy(cluster(broker, tokens, "plain"))
    document.data["kafka"]["other"] = {"bootstrap": "embedded", "topics": {topic: 1}}
    other = document.add_scope("lab", {"match": "events/{topic}", "kafka": "other"})
    start_gateway(document.text, env={"KAFKA_PASSWORD": PASSWORD})
    producer = new_producer(broker.bootstrap)
    readers = [receive(Login(port), f"events/{topic}", 1) for port in (document.edge, other)]
    for reader in readers:
        reader.attached()
    producer.produce(topic, b"from kafka")
    assert producer.flush(PATIENCE) == 0
    send(Login(other), f"events/{topic}", [message_of("from the lab")]).finish()
    assert [reader.finish()[0].message.body for reader in readers] == [b"from kafka", "from the lab"]
