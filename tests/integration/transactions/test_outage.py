"""Kafka goes away in the middle of transactions: each gets an answer, and a gateway that is told to ends (KM-14)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

import pytest

from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.plugins.fixtures import served
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.three_kafkas import KafkaBrokers
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.topics import aborted, committed, consuming, silent

_TURNS = 4
"""Transactions after which each of the two clients that take turns has committed twice."""


class Inputs(NamedTuple):
    """A topic with something to consume."""

    kafka: KafkaBroker
    topic: str


class Client:
    """A connection with a transaction that has a record in it, and perhaps a position."""

    def __init__(self, document: Document, topic: str, body: bytes, inputs: Inputs | None = None) -> None:
        self.peer = Peer(document.edge)
        self.peer.start(container_id=str(body, "ascii"))
        self.controller, self.outbox = Controller(self.peer), Outbox(self.peer, f"events/{topic}", 1)
        self.delivery: int | None = None
        if inputs is not None:
            inbox = consuming(self.peer, inputs.topic, 2, group=False)  # it begins at the end
            with inputs.kafka.writing() as write:
                write(inputs.topic, b"in")
            self.delivery = inbox.transfer().delivery_id
        self.txn_id, self.body = self.controller.declare(), body

    def work(self) -> None:
        """Post a message, and accept one if there is a link for it."""
        state = self.outbox.send(message(self.body), state=in_transaction(self.txn_id))
        assert state.matches({"outcome": "accepted"})
        if self.delivery is not None:
            self.peer.disposition(self.delivery, in_transaction(self.txn_id, "accepted"))


def three(document: Document, topic: str, inputs: Inputs) -> list[Client]:
    """Clients that are going to commit, to roll back, and to commit a position."""
    plain = [Client(document, topic, body) for body in (b"commit", b"undo")]
    return [*plain, Client(document, topic, b"at", inputs)]


def commit_three(document: Document, topic: str) -> None:
    """More transactions than there were: no producer is stuck."""
    with Peer(document.edge) as peer:
        peer.start()
        controller, outbox = Controller(peer), Outbox(peer, f"events/{topic}", 1)
        for _ in range(3):
            txn_id = controller.declare()
            while not outbox.send(message(b"after"), state=in_transaction(txn_id)).matches({"outcome": "accepted"}):
                assert controller.discharge(txn_id, fail=True).matches("accepted")  # Kafka is not back yet
                txn_id = controller.declare()
            assert controller.discharge(txn_id).matches("accepted")


@contextmanager
def gone(kafka: KafkaBroker, away: str) -> Iterator[None]:
    """The broker answers nothing meanwhile, or is dead."""
    if away == "silent":
        with silent(kafka):
            yield
    else:
        kafka.kill()
        yield


@pytest.mark.parametrize("away", ["dead", pytest.param("silent", marks=pytest.mark.soak)])
def test_a_gateway_ends_in_time_in_the_middle_of_transactions(
    start_gateway: Gateways, own_kafka: KafkaBroker, away: str
) -> None:
    """Calls of librdkafka go on for more than a minute then, whatever time limit they have."""
    document = Document(id=f"gw-{away}", drain="1s")
    document.kafka(own_kafka.bootstrap)
    gateway, topic = start_gateway(document.text), own_kafka.create_topic()
    inputs = Inputs(own_kafka, own_kafka.create_topic())
    commit, undo, positions = clients = three(document, topic, inputs)
    late = Client(document, topic, b"late")
    for client in clients:
        client.work()
    with gone(own_kafka, away):
        commit.controller.discharging(commit.txn_id)
        undo.controller.discharging(undo.txn_id, fail=True)
        positions.controller.discharging(positions.txn_id)
        late.outbox.post(message(late.body), state=in_transaction(late.txn_id))
        gateway.stop(15)


def test_a_transaction_survives_a_restart_of_kafka(start_gateway: Gateways, own_kafka: KafkaBroker) -> None:
    """Its client has sent positions before, and so knows the coordinator of their group (librdkafka issue 5511)."""
    document = Document(id="gw-again")
    document.kafka(own_kafka.bootstrap)
    start_gateway(document.text)
    topic, inputs = own_kafka.create_topic(), own_kafka.create_topic()
    with Peer(document.edge) as peer:
        peer.start(container_id="worker")
        controller, outbox = Controller(peer), Outbox(peer, f"events/{topic}", 1)
        inbox = consuming(peer, inputs, 2, group=False)  # it begins at the end
        for number in range(_TURNS + 1):
            with own_kafka.writing() as write:
                write(inputs, b"in")
            delivery, txn_id = inbox.transfer().delivery_id, controller.declare()
            state = outbox.send(message(b"%d" % number), state=in_transaction(txn_id))
            assert state.matches({"outcome": "accepted"})
            peer.disposition(delivery, in_transaction(txn_id, "accepted"))
            if number == _TURNS:
                own_kafka.kill()
                own_kafka.start()
            assert controller.discharge(txn_id).matches("accepted")
    assert committed(own_kafka.bootstrap, topic) == [b"%d" % number for number in range(_TURNS + 1)]


@pytest.mark.soak
def test_each_discharge_is_answered_although_kafka_is_silent(start_gateway: Gateways, own_kafka: KafkaBroker) -> None:
    """What is certainly not committed is rolled back; after a commit was sent, nobody knows (decision 49)."""
    document = Document(id="gw-silence", log="json")
    document.scope()["transaction_timeout"] = "5s"
    document.kafka(own_kafka.bootstrap)
    topic, inputs = own_kafka.create_topic(), Inputs(own_kafka, own_kafka.create_topic())
    start_gateway(document.text)
    commit, undo, positions = clients = three(document, topic, inputs)
    idle = Client(document, topic, b"idle")
    for client in [*clients, idle]:
        client.work()
    with gone(own_kafka, "silent"):
        commit.controller.discharging(commit.txn_id)
        undoing = undo.controller.discharging(undo.txn_id, fail=True)
        resuming = positions.controller.discharging(positions.txn_id)
        assert commit.peer.until("detach", handle=0).error["condition"] == "amqp:internal-error"
        assert undo.controller.outcome(undoing).matches("accepted")
        outcome = positions.controller.outcome(resuming)
        assert outcome["error"]["condition"] == "amqp:transaction:rollback"
        assert idle.controller.discharge(idle.txn_id)["error"]["condition"] == "amqp:transaction:timeout"
    commit_three(document, topic)
    wait_until(lambda: committed(own_kafka.bootstrap, topic).count(b"after") == 3, "what was committed", 2 * PATIENCE)
    assert set(committed(own_kafka.bootstrap, topic)) - {b"commit"} == {b"after"}


@pytest.fixture
def brokers() -> Iterator[KafkaBrokers]:
    """Three brokers that the test may stop and kill."""
    yield from served(KafkaBrokers())


@pytest.mark.soak
def test_what_was_rolled_back_stays_so_if_kafka_ends_it_without_a_leader(
    start_gateway: Gateways, brokers: KafkaBrokers
) -> None:
    """Kafka 4.3 leaves the transaction open in the log, for the next commit of the same producer (decision 108)."""
    document = Document(id="gw-leaderless", log="json")
    document.scope()["transaction_timeout"] = "5s"
    document.kafka(brokers.bootstrap)
    replicated = brokers.create_topic()
    start_gateway(document.text)
    first = Client(document, replicated, b"first")
    first.work()
    assert first.controller.discharge(first.txn_id).matches("accepted")
    alone = next(number for number in brokers.brokers if number != brokers.leader("__transaction_state"))
    topic = brokers.create_topic_on(alone)
    undo = Client(document, topic, b"undo")
    undo.work()
    with ExitStack() as stopped:
        for broker in brokers.brokers.values():
            stopped.enter_context(silent(broker))
        undoing = undo.controller.discharging(undo.txn_id, fail=True)
        assert undo.controller.outcome(undoing).matches("accepted")
        brokers.brokers[alone].kill()
    wait_until(lambda: aborted(brokers.bootstrap), "Kafka to end the transaction without a marker", 2 * PATIENCE)
    brokers.brokers[alone].start()
    commit_three(document, topic)
    wait_until(lambda: committed(brokers.bootstrap, topic).count(b"after") == 3, "what was committed", 2 * PATIENCE)
    assert committed(brokers.bootstrap, topic) == 3 * [b"after"]
