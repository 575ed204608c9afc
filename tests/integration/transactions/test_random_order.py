"""A consumer that does whatever a client may do with several open transactions: each input is consumed once (KM-14).

The printed seed repeats the same choices (tests/support/plugins/seed.py).
"""

from __future__ import annotations

import os
import random
from collections import Counter
from typing import Final

import pytest

from tests.support.amqp.frames import Frame
from tests.support.amqp.messages import message
from tests.support.amqp.peer import RECEIVER
from tests.support.gateway.gateway import Gateways
from tests.support.plugins.seed import SEED
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis
from tests.support.transactions.consumer import StoredConsumer
from tests.support.transactions.controller import in_transaction

STEPS: Final = int(os.environ.get("SCOPEGATE_STEPS", "200"))
INPUTS: Final = STEPS // 2
AT_ONCE: Final = 4
"""Transactions that are open at the same time."""
END: Final = b"end"
ROLLBACKS: Final = 1000
"""How often an input may come back (`max_redeliveries`)."""


class Stranger:
    """Events that it has and that are in no transaction; open transactions with the events it has not settled."""

    def __init__(self, consumer: StoredConsumer, drawn: random.Random) -> None:
        self.consumer, self.random = consumer, drawn
        self.held: list[Frame] = []
        self.open: dict[bytes, list[Frame]] = {}
        self.log: Counter[str] = Counter()

    def step(self) -> None:
        """Do something."""
        often = {self.take: 9, self.settle: 8, self.end: 3}
        steps = {**often, self.give_back: 0.5, self.attach_again: 0.6, self.kill: 0.15}
        (step,) = self.random.choices([*steps], [*steps.values()])
        self.log[step.__name__] += step()

    def take(self) -> int:
        """Get the next event, if there is one: the drain tells."""
        consumer, inbox = self.consumer, self.consumer.inbox
        consumer.peer.flow(0, link_credit=1, delivery_count=inbox.received, drain=True)
        while (frame := consumer.peer.receive()) is not None:
            if frame.kind == "transfer":
                inbox.received += 1
                self.held.append(frame)
                return 1
            if frame.kind == "flow" and frame.handle == 0 and frame.drain:
                inbox.received = frame.delivery_count
                return 0
            if frame.kind == "disposition" and frame.role is RECEIVER:
                last = frame.first if frame.last is None else frame.last
                consumer.controller.outcomes.update(dict.fromkeys(range(frame.first, last + 1), frame.state))
        raise consumer.peer.unexpected("neither an event nor the end of the drain")

    def settle(self) -> int:
        """Give an event an outcome in a transaction: most are accepted, and something is made of those."""
        if not self.held:
            return 0
        if len(self.open) < AT_ONCE and self.random.random() < 0.4:
            self.open[self.consumer.controller.declare()] = []
        if not self.open:
            return 0
        txn_id = self.random.choice([*self.open])
        event = self.held.pop(self.random.randrange(len(self.held)))
        settled = self.random.random() < 0.7
        if not settled:
            self.open[txn_id].append(event)
        if self.random.random() < 0.8:
            self.consumer.settle(txn_id, event, settled=settled)
        else:
            outcome = self.random.choice(["released", "modified"])
            self.consumer.peer.disposition(event.delivery_id, in_transaction(txn_id, outcome), settled=settled)
        return 1

    def give_back(self) -> int:
        """Release an event outside of any transaction."""
        if not self.held:
            return 0
        self.consumer.peer.disposition(self.held.pop().delivery_id, "released")
        return 1

    def end(self, most: int = 2) -> int:
        """Discharge some transactions at the same time; after a rollback what was not settled is still here."""
        controller = self.consumer.controller
        ids = self.random.sample([*self.open], min(len(self.open), self.random.randint(1, most)))
        fates = {each: self.random.random() < 0.3 for each in ids}
        discharges = {each: controller.discharging(each, fail=fail) for each, fail in fates.items()}
        for txn_id, delivery in discharges.items():
            outcome, unsettled = controller.outcome(delivery), self.open.pop(txn_id)
            assert outcome.matches("accepted") or outcome["error"]["condition"] == "amqp:transaction:rollback"
            self.log[f"{outcome.name}, fail={fates[txn_id]}"] += 1
            if fates[txn_id] or not outcome.matches("accepted"):
                self.held += unsettled
        return len(ids)

    def attach_again(self) -> int:
        """Detach the link and attach it at another connection, or at the same one."""
        consumer = self.consumer
        self.held.clear()
        if self.random.random() < 0.5:
            consumer.end("detach")
            self.open.clear()
            consumer.attach()
            return 1
        consumer.attach_link_again()
        self.open = {each: [] for each in self.open}
        return 1

    def kill(self) -> int:
        """Kill the gateway, perhaps with discharges on their way."""
        for txn_id in self.open:
            if self.random.random() < 0.5:
                self.consumer.controller.discharging(txn_id)
        self.consumer.end("kill")
        self.held.clear()
        self.open.clear()
        self.consumer.attach()
        return 1


def finish(consumer: StoredConsumer) -> None:
    """Consume what is left, one after the other; use all producers, which aborts what kills have left open."""
    consumer.end("detach")
    consumer.attach()
    last = Stranger(consumer, random.Random(0))
    while last.take():
        consumer.commit(consumer.settled(last.held.pop()))
    ids = [consumer.controller.declare() for _ in range(AT_ONCE + 1)]  # one client is made beforehand
    for each in ids:
        consumer.outbox.send(message(END), state=in_transaction(each))
    consumer.commit(*ids)


@pytest.mark.parametrize("kind", ["durable", pytest.param("group", marks=pytest.mark.soak)])
def test_each_input_is_consumed_once_in_any_order(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, kind: str
) -> None:
    """Outcomes in transactions and outside, settled or not; discharges together; links that end; kills."""
    print(f"\nSCOPEGATE_SEED={SEED} SCOPEGATE_STEPS={STEPS}")
    drawn = random.Random(SEED)
    rule = {"max_redeliveries": ROLLBACKS, "strict_order": drawn.random() < 0.5}
    consumer = StoredConsumer(start_gateway, kafka_broker, redis_server, kind, credit=0, **rule)
    consumer.write(*range(INPUTS))
    stranger = Stranger(consumer, drawn)
    for _ in range(STEPS):
        stranger.step()
    print(dict(stranger.log))
    finish(consumer)
    made = Counter(each for each in consumer.made if each != END)
    wanted = Counter(b"of %d" % number for number in range(INPUTS))
    assert (made - wanted, wanted - made) == (Counter(), Counter())
