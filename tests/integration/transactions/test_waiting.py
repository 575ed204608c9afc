"""What waits for a transaction to begin or to end: somebody pays for its memory all the time (KM-14)."""

from __future__ import annotations

from typing import Final

import pytest

from tests.support.amqp.messages import message
from tests.support.amqp.peer import Peer
from tests.support.cli.admin import Admin
from tests.support.gateway.crossing import Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import wait_until
from tests.support.servers.kafka import KafkaBroker
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.topics import committed, silent

SIZE: Final = 50_000
COUNT: Final = 40


class Waiting:
    """A connection with posts in a transaction that cannot begin before Kafka answers."""

    def __init__(self, start: Gateways, kafka: KafkaBroker) -> None:
        document = Document(log="json")
        document.kafka(kafka.bootstrap)
        self.admin = Admin(start, document)
        self.kafka, self.topic = kafka, kafka.create_topic()
        self.peer = Peer(document.edge)
        self.peer.start(container_id="waits")
        self.controller = Controller(self.peer)
        self.outbox = Outbox(self.peer, f"events/{self.topic}", 1)
        self.outbox.credit()
        self.outbox.outcomes = self.controller.outcomes
        self.txn_id = self.controller.declare()

    def post(self, count: int, *, settled: bool = False) -> list[int]:
        state, body = in_transaction(self.txn_id), bytes(SIZE)
        return [self.outbox.post(message(body), state=state, settled=settled) for _ in range(count)]

    @property
    def held(self) -> int:
        """What the admin API says that is held for the connection."""
        (found,) = [each for each in self.admin.listed("/connections") if each["container"] == "waits"]
        return int(found["held_bytes"])


@pytest.mark.parametrize("settled", [False, True])
@pytest.mark.parametrize("fail", [False, True])
def test_the_account_of_their_connection_has_them_until_their_outcomes(
    start_gateway: Gateways, own_kafka: KafkaBroker, settled: bool, fail: bool
) -> None:
    waiting = Waiting(start_gateway, own_kafka)
    with silent(own_kafka):
        posted = waiting.post(COUNT, settled=settled)
        wait_until(lambda: waiting.held >= COUNT * SIZE, "the posts to be on the account")
        if fail:
            discharge = waiting.controller.discharging(waiting.txn_id, fail=True)
            wait_until(lambda: waiting.held < SIZE, "the account to be empty")
    if not fail:
        discharge = waiting.controller.discharging(waiting.txn_id)
    assert waiting.controller.outcome(discharge).matches("accepted")
    if not settled:
        outcomes = {waiting.outbox.outcome(each)["outcome"].name for each in posted}
        assert outcomes == {"released" if fail else "accepted"}
    wait_until(lambda: waiting.held < SIZE, "the account to be empty")
    assert committed(own_kafka.bootstrap, waiting.topic) == ([] if fail else [bytes(SIZE)] * COUNT)


@pytest.mark.parametrize("settled", [False, True])
def test_the_account_has_them_when_their_link_has_ended(
    start_gateway: Gateways, own_kafka: KafkaBroker, settled: bool
) -> None:
    """A peer that attaches again and again while Kafka is silent holds no more than its limit."""
    waiting = Waiting(start_gateway, own_kafka)
    with silent(own_kafka):
        waiting.post(COUNT, settled=settled)
        wait_until(lambda: waiting.held >= COUNT * SIZE, "the posts to be on the account")
        waiting.peer.detach(1)
        waiting.peer.until("detach", handle=1)
        other = waiting.controller.declare()  # when it is answered, the detach is on the account
        assert waiting.held >= COUNT * SIZE
        assert waiting.controller.discharge(other).matches("accepted")
        discharge = waiting.controller.discharging(waiting.txn_id, fail=True)
        wait_until(lambda: waiting.held < SIZE, "the account to be empty")
    assert waiting.controller.outcome(discharge).matches("accepted")
