"""Transactions of workers of a shared group at two gateways, while partitions move between these (KM-10, KM-14)."""

from __future__ import annotations

import signal
from typing import NamedTuple

import pytest

from tests.support.amqp.members import Producer, keep_connected
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.groups import group_state
from tests.support.gateway.process import wait_until
from tests.support.gateway.warm import OFTEN, PATIENT, shortened
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis
from tests.support.transactions.topics import committed
from tests.support.transactions.worker import Worker

connections = pytest.fixture(autouse=True)(keep_connected)
GRACE = "bridges.kafka.groups.shared.GRACE"


class Pair(NamedTuple):
    """Two gateways with one state and one Kafka; a topic of two partitions, and one for what is made of its events."""

    ports: tuple[int, int]
    gateways: tuple[Gateway, Gateway]
    broker: KafkaBroker
    inputs: str
    outputs: str

    def worker(self, gateway: int) -> Worker:
        return Worker(self.ports[gateway], f"events/{self.inputs}", f"events/{self.outputs}")

    def feed(self) -> None:
        """An event in each partition."""
        producer = Producer(self.ports[1], f"events/{self.inputs}")
        for partition in range(2):
            producer.send(b"%d" % partition, partition=partition)

    @property
    def moving(self) -> int:
        """The number of partitions that are about to move, as the other gateway sees it."""
        return sum(each["moving"] for each in group_state(self.gateways[1], f"events/{self.inputs}", "g")["owners"])

    @property
    def made(self) -> list[bytes]:
        return sorted(committed(self.broker.bootstrap, self.outputs))


def started(start: Gateways, broker: KafkaBroker, redis: Redis, lease: str, grace: float) -> Pair:
    redis.empty()
    documents = [Document(id=f"gw-sharing-{name}", state=redis.url, lease=lease, log="json") for name in "ab"]
    for document in documents:
        document.kafka(broker.bootstrap)
        document.scope()["addresses"][-1]["group_mode"] = "shared"
    inputs, outputs = broker.create_topic(partitions=2), broker.create_topic()
    env = shortened({**OFTEN, **PATIENT, GRACE: grace})
    first, second = [start(document.text, env=env) for document in documents]
    return Pair((documents[0].edge, documents[1].edge), (first, second), broker, inputs, outputs)


@pytest.mark.parametrize("in_time", [True, False])
def test_a_partition_moves_to_another_gateway(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, in_time: bool
) -> None:
    """It waits for a transaction that retires its events, but not for long: then that is rolled back."""
    pair = started(start_gateway, kafka_broker, redis_server, "60s", 60.0 if in_time else 0.1)
    first = pair.worker(0)
    pair.feed()
    txn_id = first.controller.declare()
    first.work(txn_id, first.events(2))
    second = pair.worker(1)
    if in_time:
        wait_until(lambda: pair.moving == 1, "the group to deal anew")
        assert first.controller.discharge(txn_id).matches("accepted")
        wait_until(lambda: pair.moving == 0, "a partition to move")
        assert pair.made == [b"of 0", b"of 1"]
        pair.feed()
        assert sorted([*first.consume(1), *second.consume(1)]) == [b"0", b"1"]
        assert pair.made == [b"of 0", b"of 0", b"of 1", b"of 1"]
    else:
        (moved,) = second.consume(1)
        error = first.controller.discharge(txn_id)["error"]
        assert error["condition"] == "amqp:transaction:rollback"
        assert pair.made == [b"of " + moved]
        (stayed,) = first.consume(1)
        assert sorted([moved, stayed]) == [b"0", b"1"]
        assert pair.made == [b"of 0", b"of 1"]


def test_a_gateway_that_stood_still_for_too_long_commits_nothing(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis
) -> None:
    """Another one has its partitions, and has done its work, before it goes on with its transaction."""
    pair = started(start_gateway, kafka_broker, redis_server, "6s", 60.0)  # that no other one stands still for so long
    first = pair.worker(0)
    pair.feed()
    txn_id = first.controller.declare()
    first.work(txn_id, first.events(2))
    still = pair.gateways[0].process
    still.send_signal(signal.SIGSTOP)
    try:
        discharging = first.controller.discharging(txn_id)
        second = pair.worker(1)
        assert sorted(second.consume(2)) == [b"0", b"1"]
    finally:
        still.send_signal(signal.SIGCONT)
    error = first.controller.outcome(discharging)["error"]
    assert error["condition"] == "amqp:transaction:rollback"
    assert pair.made == [b"of 0", b"of 1"]


@pytest.mark.parametrize("retired", [True, False])
def test_a_partition_comes_back_to_a_link_that_still_has_its_events(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, retired: bool
) -> None:
    """Its events come again, and the peer could settle both deliveries of one: so the link ends instead."""
    pair = started(start_gateway, kafka_broker, redis_server, "60s", 0.1)
    first = pair.worker(0)
    pair.feed()
    txn_id, events = first.controller.declare(), first.events(2)
    if retired:
        first.work(txn_id, events)
    second = pair.worker(1)
    second.events(1)
    second.peer.close()
    detach = first.peer.until("detach", keep="disposition", handle=0)
    assert detach.error["condition"] == "amqp:link:detach-forced"
    assert "came back to the link" in detach.error["description"]
    outcome = first.controller.discharge(txn_id)
    assert outcome.matches("rejected" if retired else "accepted")
    assert sorted(pair.worker(0).consume(2)) == [b"0", b"1"]
    assert pair.made == [b"of 0", b"of 1"]
