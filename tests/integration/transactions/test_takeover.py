"""Transactions that a killed gateway has left open: whoever takes its place aborts them (KM-14)."""

from __future__ import annotations

import socket

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.gateway.warm import PATIENT, shortened
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.servers.servers import Redis
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.sessions import LASTING, kill_for_good
from tests.support.transactions.topics import committed, consuming

TWIN = "another process has taken over the transactional.id"
"""What the answer to a discharge says."""


def consume_one(port: int, topic: str, *, group: bool) -> bytes:
    """Consume one event in a transaction, and return it."""
    with Peer(port) as peer:
        peer.start(container_id="worker")
        transfer = consuming(peer, topic, 0, group=group, credit=1).transfer()
        controller = Controller(peer, 1)
        txn_id = controller.declare()
        peer.disposition(transfer.delivery_id, in_transaction(txn_id, "accepted"))
        assert controller.discharge(txn_id).matches("accepted")
        peer.detach(0, closed=False)
        peer.until("detach", handle=0)
        return bytes(sections(transfer.payload)["data"])


def left_open(broker: KafkaBroker, identifier: str, topic: str, offset: int) -> Producer:
    """The client that a killed gateway has left: it was about to commit the position of its consumer."""
    admin = broker.admin()  # referenced until the end: an answer ends with its client
    names = [each.group_id for each in admin.list_consumer_groups().result(PATIENCE).valid]
    (name,) = [each for each in names if each.count(".") == 2 and offset_of(broker, each, topic) > 0]
    settings = {"transactional.id": identifier, "transaction.timeout.ms": 600_000, "log_level": 0}
    producer = new_producer(broker.bootstrap, **settings)
    producer.init_transactions(PATIENCE)
    producer.begin_transaction()
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": name, "log_level": 0})
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, 0, offset)], consumer.consumer_group_metadata(), PATIENCE
    )
    consumer.close()
    return producer


def offset_of(broker: KafkaBroker, group: str, topic: str) -> int:
    """The offset that a group has committed; negative: none."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": group, "log_level": 0})
    (found,) = consumer.committed([TopicPartition(topic, 0)], PATIENCE)
    consumer.close()
    return int(found.offset)


@pytest.mark.parametrize("group", [True, False])
def test_a_transaction_that_a_killed_gateway_left_open_is_aborted_by_its_successor(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, group: bool
) -> None:
    """It is of another name, and attaches the consumer long before Kafka would abort the transaction by itself."""
    names = [f"gw-{name}-{group}" for name in ("gone", "heir")]
    documents = [Document(id=name, state=redis_server.url, lease=LASTING) for name in names]
    for document in documents:
        document.kafka(kafka_broker.bootstrap)
    first, _ = [start_gateway(document.text, env=shortened(PATIENT)) for document in documents]
    topic = kafka_broker.create_topic()
    with Peer(documents[0].edge) as peer:
        peer.start(container_id="worker")
        consuming(peer, topic, 0, group=group)  # a group begins at the end of the topic
    with kafka_broker.writing() as write:
        for number in range(3):
            write(topic, b"%d" % number)
    assert consume_one(documents[0].edge, topic, group=group) == b"0"
    kill_for_good(first, redis_server)
    dead = left_open(kafka_broker, f"{names[0]}-{socket.gethostname()}-0", topic, 2)

    def attached() -> bytes:
        try:
            return consume_one(documents[1].edge, topic, group=group)
        except AssertionError:  # the link of the killed gateway still has its lease
            return b""

    assert wait_until(attached, "the successor to take over") == b"1"
    with pytest.raises(KafkaException, match="fenced"):
        dead.commit_transaction(PATIENCE)


@pytest.mark.parametrize("earlier", [0, 1])
def test_a_restarted_gateway_aborts_what_it_had_left_open(
    start_gateway: Gateways, kafka_broker: KafkaBroker, earlier: int
) -> None:
    """Its first transaction does, for both clients that took turns; readers wait no longer for the old one."""
    document, topic = Document(id=f"gw-again-{earlier}"), kafka_broker.create_topic()
    document.kafka(kafka_broker.bootstrap)
    gateway = start_gateway(document.text)
    for number in range(-earlier, 2):
        with Peer(document.edge) as peer:
            peer.start()
            controller, outbox = Controller(peer), Outbox(peer, f"events/{topic}", 1)
            txn_id = controller.declare()
            state = outbox.send(message(b"%d" % number), state=in_transaction(txn_id))
            assert state.matches({"outcome": "accepted"})
            if not number:
                gateway.kill()
                gateway.restart()
            else:
                assert controller.discharge(txn_id).matches("accepted")
    well = [b"-1", b"1"][1 - earlier :]
    wait_until(lambda: committed(kafka_broker.bootstrap, topic) == well, "the open transaction to be aborted")


def test_a_gateway_whose_producers_another_process_uses_takes_others(
    start_gateway: Gateways, kafka_broker: KafkaBroker
) -> None:
    """A post is released, its transaction is rolled back, and the log says why; the next transaction is as usual."""
    document, topic = Document(id="gw-twin", log="json"), kafka_broker.create_topic()
    document.kafka(kafka_broker.bootstrap)
    gateway, ids = start_gateway(document.text), f"gw-twin-{socket.gethostname()}"
    where = {"bootstrap.servers": kafka_broker.bootstrap, "log_level": 0}
    twins = [Producer({**where, "transactional.id": f"{ids}-{number}"}) for number in range(2)]
    with Peer(document.edge) as peer:
        peer.start()
        controller, outbox = Controller(peer), Outbox(peer, f"events/{topic}", 1)
        well, ill = ("accepted", "accepted"), ("released", "rejected")
        for body, (outcome, end) in ((b"0", well), (b"0", well), (b"1", ill), (b"2", well)):  # both are used first
            txn_id = controller.declare()
            if end == "rejected":
                for twin in twins:
                    twin.init_transactions(PATIENCE)
            state = outbox.send(message(body), state=in_transaction(txn_id))
            assert state.matches({"outcome": outcome})
            answer = controller.discharge(txn_id)
            assert answer.matches(end)
            if end == "rejected":
                assert answer["error"]["condition"] == "amqp:transaction:rollback"
                assert TWIN in answer["error"]["description"]
    gateway.wait_log("transactional.ids used by another process", ids=ids)
    assert committed(kafka_broker.bootstrap, topic) == [b"0", b"0", b"2"]
    for twin in twins:
        twin.begin_transaction()
        twin.produce(topic, b"3")
        twin.commit_transaction(PATIENCE)  # nobody has fenced it off in turn


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("position", [False, True])
def test_a_transaction_that_another_process_fences_before_its_discharge(
    start_gateway: Gateways, kafka_broker: KafkaBroker, position: bool, fail: bool
) -> None:
    """With all records written, or with a position too: the answer says why it is not committed. A rollback is one."""
    name = f"gw-fenced-{position}-{fail}"
    document, topic = Document(id=name, log="json"), kafka_broker.create_topic()
    document.kafka(kafka_broker.bootstrap)
    start_gateway(document.text)
    twin = Producer(
        {
            "bootstrap.servers": kafka_broker.bootstrap,
            "transactional.id": f"{name}-{socket.gethostname()}-0",
            "log_level": 0,
        }
    )
    with Peer(document.edge) as peer:
        peer.start(container_id="worker")
        controller, outbox = Controller(peer), Outbox(peer, f"events/{topic}", 1)
        outbox.outcomes = controller.outcomes
        outbox.credit()
        inbox = consuming(peer, topic, 2, group=False) if position else None
        if inbox is not None:
            assert outbox.send(message(b"input")).matches("accepted")
        txn_id = controller.declare()
        assert outbox.send(message(b"lost"), state=in_transaction(txn_id)).matches({"outcome": "accepted"})
        if inbox is not None:
            peer.disposition(inbox.transfer().delivery_id, in_transaction(txn_id, "accepted"))
        twin.init_transactions(PATIENCE)
        answer = controller.discharge(txn_id, fail=fail)
        if fail:
            assert answer.matches("accepted")
        else:
            assert answer["error"]["condition"] == "amqp:transaction:rollback"
            assert TWIN in answer["error"]["description"]
        txn_id = controller.declare()
        assert outbox.send(message(b"after"), state=in_transaction(txn_id)).matches({"outcome": "accepted"})
        assert controller.discharge(txn_id).matches("accepted")
    assert committed(kafka_broker.bootstrap, topic) == [*([b"input"] if position else []), b"after"]
