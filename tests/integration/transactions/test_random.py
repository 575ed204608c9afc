"""Random transactions while gateways are killed: readers of committed records see exactly what was committed (KM-14).

`make soak` runs more of them; the printed seed repeats the same choices (tests/support/plugins/seed.py).
"""

from __future__ import annotations

import contextlib
import os
import random
from collections import Counter
from functools import partial
from typing import Final

import pytest

from tests.support.amqp.messages import message, sections
from tests.support.amqp.peer import Peer
from tests.support.gateway.crossing import Inbox, Outbox
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import wait_until
from tests.support.gateway.warm import PATIENT, shortened
from tests.support.plugins.seed import SEED
from tests.support.servers.kafka import KafkaBroker
from tests.support.servers.servers import Redis
from tests.support.transactions.controller import Controller, in_transaction
from tests.support.transactions.sessions import LASTING, kill_for_good
from tests.support.transactions.topics import committed, consuming, difference

TRANSACTIONS: Final = int(os.environ.get("SCOPEGATE_TRANSACTIONS", "45"))
KILLS: Final = max(2, TRANSACTIONS // 20)
AT_ONCE: Final = 3
"""Transactions that are open at the same time on a connection."""
COMMITTED, UNDONE, UNKNOWN = "committed", "undone", "unknown"


def begin(controller: Controller, outbox: Outbox, body: bytes) -> bytes:
    """Post the first message of a new transaction: while rollbacks still use all producers, it is rejected."""
    txn_id = controller.declare()
    while not (outcome := outbox.send(message(body), state=in_transaction(txn_id))["outcome"]).matches("accepted"):
        assert outcome["error"]["condition"] == "amqp:resource-limit-exceeded"
        assert controller.discharge(txn_id, fail=True).matches("accepted")
        txn_id = controller.declare()
    return txn_id


class Round:
    """Transactions that are open at the same time on one connection; its messages are `number.index`."""

    def __init__(self, drawn: random.Random, numbers: range, topics: list[str]) -> None:
        self.random, self.topics = drawn, topics
        self.fates = dict.fromkeys(numbers, UNDONE)
        self.posted: dict[int, list[tuple[str, bytes]]] = {number: [] for number in numbers}
        self._ids: dict[int, bytes] = {}
        self._discharges: dict[int, int] = {}

    def go(self, peer: Peer, kill: Gateway | None) -> None:
        """Post in all transactions by turns and end each; `kill` ends before a random one of these steps."""
        controller = Controller(peer)
        outboxes = {topic: Outbox(peer, f"events/{topic}", at) for at, topic in enumerate(self.topics, 1)}
        for outbox in outboxes.values():
            outbox.outcomes = controller.outcomes  # each takes what it reads of the others'
        steps = [number for number in self.fates for _ in range(self.random.randint(1, 12))]
        self.random.shuffle(steps)
        deadly = self.random.choice([self.random.randint(0, len(steps)), len(steps)])
        left = Counter(steps)
        for at, number in enumerate([*steps, None]):
            if at == deadly and kill is not None:
                kill.kill()
            if number is None:
                break
            left[number] -= 1
            self._work(number, controller, outboxes)
            if not left[number]:
                self._end(number, controller)
        for number, delivery in self._discharges.items():
            outcome = controller.outcome(delivery)
            self.fates[number] = COMMITTED if outcome.matches("accepted") else UNDONE

    def _work(self, number: int, controller: Controller, outboxes: dict[str, Outbox]) -> None:
        topic, body = self.random.choice(self.topics), b"%d.%d" % (number, len(self.posted[number]))
        self.posted[number].append((topic, body))
        settled = self.random.random() < 0.5
        if number not in self._ids:
            self._ids[number] = begin(controller, outboxes[topic], body)
        else:
            outboxes[topic].post(message(body), state=in_transaction(self._ids[number]), settled=settled)

    def _end(self, number: int, controller: Controller) -> None:
        """Commit, roll back, or forget it: then the end of the connection rolls it back."""
        drawn = self.random.random()
        if drawn < 0.6:
            self.fates[number] = UNKNOWN
            self._discharges[number] = controller.discharging(self._ids[number])
        elif drawn < 0.8:
            controller.discharging(self._ids[number], fail=True)


def wrong(done: Round, seen: dict[str, Counter[bytes]]) -> list[str]:
    """The transactions of a round that readers see in another way than they ended."""
    found = []
    for number, fate in done.fates.items():
        times = [seen[topic][body] for topic, body in done.posted[number]]
        right = {COMMITTED: ({1},), UNDONE: ({0},), UNKNOWN: ({0}, {1})}[fate]
        if times and set(times) not in right:
            found.append(f"transaction {number} is {fate}, its records were seen {times} times")
    return found


def abort_open(port: int, topic: str) -> None:
    """Use all producers of the gateway once more, which aborts what killed processes have left open."""
    with Peer(port) as peer:
        peer.start()
        controller, outbox = Controller(peer), Outbox(peer, f"events/{topic}", 1)
        for txn_id in [begin(controller, outbox, b"last") for _ in range(AT_ONCE)]:
            assert controller.discharge(txn_id).matches("accepted")


@pytest.mark.row("AT-2.2.2-11")
def test_readers_see_exactly_the_transactions_that_were_committed(
    start_gateway: Gateways, kafka_broker: KafkaBroker
) -> None:
    print(f"\nSCOPEGATE_SEED={SEED} SCOPEGATE_TRANSACTIONS={TRANSACTIONS}")
    document, drawn = Document(id="gw-random", log="json"), random.Random(SEED)
    document.kafka(kafka_broker.bootstrap, transactional_producers=AT_ONCE)
    gateway, topics = start_gateway(document.text), [kafka_broker.create_topic() for _ in range(2)]
    rounds = [Round(drawn, range(at, at + AT_ONCE), topics) for at in range(0, TRANSACTIONS, AT_ONCE)]
    deadly = drawn.sample(rounds, KILLS)
    for each in rounds:
        survived = contextlib.suppress(OSError, AssertionError) if each in deadly else contextlib.nullcontext()
        with survived, Peer(document.edge) as peer:
            peer.start()
            each.go(peer, gateway if each in deadly else None)
        if not gateway.process.alive:
            gateway.restart()
    abort_open(document.edge, topics[0])
    seen = {topic: Counter(committed(kafka_broker.bootstrap, topic)) for topic in topics}
    fates = Counter(fate for each in rounds for fate in each.fates.values())
    print(f"{dict(fates)}; {KILLS} kills; records: {[seen[topic].total() for topic in topics]}")
    assert fates[COMMITTED] > TRANSACTIONS / 4
    assert [line for each in rounds for line in wrong(each, seen)] == []


class Worker:
    """Makes one output of each input in random transactions at either of two gateways, whose place it takes at will."""

    def __init__(
        self, drawn: random.Random, gateways: list[Gateway], redis: Redis, inputs: str, outputs: str, *, group: bool
    ) -> None:
        self.random, self.redis, self.group = drawn, redis, group
        self.ports = [gateway.ports[0] for gateway in gateways]
        self.inputs, self.outputs = inputs, outputs
        self.ended: Counter[str] = Counter()

    def session(self, left: int, *, transactions: int | None = None, kill: Gateway | None = None) -> None:
        """Attach, and work until `left` inputs are done, or in some transactions; `kill` ends in the last of them."""
        port = self.random.choice(self.ports) if kill is None else kill.ports[0]
        inbox = wait_until(lambda: self.attached(port), "a link to the inputs")
        assert inbox is not None
        with inbox.peer as peer:
            controller, outbox = Controller(peer, 1), Outbox(peer, f"events/{self.outputs}", 2)
            while left > 0 and transactions != 0:
                transactions = transactions and transactions - 1
                last = kill if transactions == 0 else None
                left -= self.transaction(controller, outbox, inbox, min(left, self.random.randint(1, 6)), last)

    def attached(self, port: int) -> Inbox | None:
        """The link to the inputs; None: another link still has it."""
        peer = Peer(port)
        peer.start(container_id="worker")
        try:
            return consuming(peer, self.inputs, 0, group=self.group, credit=0)
        except AssertionError:
            peer.disconnect()
            return None

    def transaction(
        self, controller: Controller, outbox: Outbox, inbox: Inbox, count: int, kill: Gateway | None
    ) -> int:
        """Consume `count` inputs, and make outputs of them; returns how many are done."""
        txn_id, deadly = controller.declare(), self.random.choice([self.random.randint(0, count), count])
        inbox.peer.flow(inbox.handle, link_credit=count, delivery_count=inbox.received)
        for at in range(count):
            transfer = inbox.transfer()
            if at == deadly and kill is not None:
                kill_for_good(kill, self.redis)
            made = message(b"made of " + bytes(sections(transfer.payload)["data"]))
            outbox.post(made, state=in_transaction(txn_id))
            inbox.peer.disposition(transfer.delivery_id, in_transaction(txn_id, "accepted"))
        fail = self.random.random() < 0.3
        discharge = controller.discharging(txn_id, fail=fail)
        if kill is not None:
            kill_for_good(kill, self.redis)
        assert controller.outcome(discharge).matches("accepted")
        self.ended["rolled back" if fail else COMMITTED] += 1
        return 0 if fail else count


INPUTS: Final = TRANSACTIONS
ROLLBACKS: Final = 1000
"""How often an input may be rolled back (`max_redeliveries`).

With the default of 5, one run in fifty chose to roll one back six times: the gateway gave it up, and the worker waited.
"""
GIVEN_UP: Final = 'scopegate_kafka_events_total{cluster="main",event="dropped"}'
QUIET: Final = 3
"""Transactions at one gateway before a kill, at most."""


@pytest.mark.row("AT-2.2.2-11")
@pytest.mark.parametrize("group", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_each_input_is_consumed_once_whatever_dies(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis, group: bool
) -> None:
    """Two gateways, one of which takes over when the other one dies."""
    print(f"\nSCOPEGATE_SEED={SEED} SCOPEGATE_TRANSACTIONS={TRANSACTIONS}")
    documents = [Document(id=f"gw-random-{name}", log="json", state=redis_server.url, lease=LASTING) for name in "ab"]
    for document in documents:
        document.kafka(kafka_broker.bootstrap)
        document.scope()["addresses"][-1]["max_redeliveries"] = ROLLBACKS
    gateways = [start_gateway(document.text, env=shortened(PATIENT)) for document in documents]
    inputs, outputs = kafka_broker.create_topic(), kafka_broker.create_topic()
    drawn = random.Random(SEED)
    worker = Worker(drawn, gateways, redis_server, inputs, outputs, group=group)
    worker.session(0)  # a group begins at the end of the topic
    with kafka_broker.writing() as write:
        for number in range(INPUTS):
            write(inputs, b"%d" % number)
    for _ in range(KILLS):
        victim = drawn.choice(gateways)
        with contextlib.suppress(OSError, AssertionError):
            worker.session(INPUTS, transactions=drawn.randint(1, QUIET), kill=victim)
        if not victim.process.alive:
            victim.restart()
    wanted = [b"made of %d" % number for number in range(INPUTS)]
    other = kafka_broker.create_topic()
    for document in documents:
        abort_open(document.edge, other)
    made = partial(committed, kafka_broker.bootstrap, outputs)
    before = made()
    try:
        worker.session(INPUTS - len(before))
        wait_until(lambda: len(made()) >= INPUTS, "the last transaction to be visible: Kafka answers before it is")
    except AssertionError as error:
        given_up = [gateway.metrics().get(GIVEN_UP) for gateway in gateways]
        found = f"{len(before)} made before the last session; {difference(wanted, made())}"
        error.add_note(f"{worker.ended}; inputs given up {given_up}; {found}")
        raise
    assert difference(wanted, made()) == difference(wanted, wanted)
