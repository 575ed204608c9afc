"""Consumers of one group at two gateways that are killed, paused beyond their lease and rebalanced, at random.

The clients' observations are recorded and checked afterwards: no client receives an event that was added after another
one had acquired the partition; every event reaches some member, since each continues at the group's position; each
link receives events in log order. The printed seed repeats the same choices (tests/support/plugins/seed.py).
"""

from __future__ import annotations

import contextlib
import random
import select
import signal
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import pytest

from gateway.amqp.message.sections import delivery_annotations, walk
from tests.support.amqp.members import EPOCH, PARTITION, Member, requested_properties
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.gateways import GatewayPair, start_pair
from tests.support.gateway.groups import group_state
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.plugins.seed import SECONDS, SEED
from tests.support.servers.kafka import KafkaBroker, new_producer
from tests.support.servers.servers import Redis

PARTITIONS, CONSUMERS, PACE = 4, 6, 0.01
LEASE = 2.0


@dataclass
class Tenure:
    """One link's time as an owner, as its client saw it, by this process's clock."""

    consumer: int
    partition: int
    epoch: int
    answered: float
    offsets: list[int] = field(default_factory=list)


@dataclass
class History:
    """The recorded observations; `added`: when the producer began to write an event, by partition and offset."""

    tenures: list[Tenure] = field(default_factory=list)
    added: dict[tuple[int, int], float] = field(default_factory=dict)

    def seen(self) -> set[tuple[int, int]]:
        """Every event that some member received."""
        return {(tenure.partition, offset) for tenure in list(self.tenures) for offset in list(tenure.offsets)}

    def missing(self) -> set[tuple[int, int]]:
        """Events in the log that nobody has received yet."""
        return set(self.added) - self.seen()

    def wrongs(self) -> Iterable[str]:
        """All violations of the guarantees."""
        for tenure in self.tenures:
            if any(later <= earlier for earlier, later in zip(tenure.offsets, tenure.offsets[1:], strict=False)):
                yield f"out of order: {tenure}"
            others = [each for each in self.tenures if each.partition == tenure.partition and each is not tenure]
            heirs = [each.answered for each in others if each.answered > tenure.answered]
            if heirs and (late := [at for at in tenure.offsets if self.added_at(tenure, at) > min(heirs)]):
                yield f"two owners: {tenure.consumer} got {late[:5]} of {tenure.partition} after its heir was answered"
        if missing := self.missing():
            yield f"never delivered: {sorted(missing)[:10]} of {len(missing)}"

    def added_at(self, tenure: Tenure, offset: int) -> float:
        """The earliest time at which an event may have been in the log."""
        return self.added.get((tenure.partition, offset), 0.0)


class Consumer(threading.Thread):
    """Attaches at either gateway, reads, accepts, and attaches again whenever its link ended."""

    def __init__(self, number: int, ports: tuple[int, ...], address: str, history: History) -> None:
        super().__init__(name=f"consumer-{number}", daemon=True)
        self.number, self.ports, self.address, self.history = number, ports, address, history
        self.random = random.Random(f"{SEED}/{number}")
        self.ended = threading.Event()
        self.requested = ""
        """The next action on the link: cut or close."""

    def run(self) -> None:
        while not self.ended.is_set():
            with contextlib.suppress(AssertionError, OSError):  # refused, cut off, or the gateway is away
                self.attach()
            time.sleep(self.random.uniform(0, 0.2))

    def attach(self) -> None:
        wanted = requested_properties("random")
        if self.random.random() < 0.3:  # a successor takes over
            wanted = requested_properties("random", self.random.randrange(PARTITIONS), int(time.monotonic() * 1000))
        member = Member(self.random.choice(self.ports), self.address, wanted)
        try:
            while not self.ready(member):
                if self.ended.is_set() or self.requested:
                    return
            answer = member.peer.expect("attach")
            if answer.source is not None:
                found = int(answer.properties[PARTITION])
                tenure = Tenure(self.number, found, answer.properties[EPOCH], time.monotonic())
                self.history.tenures.append(tenure)
                self.read(member, tenure)
        finally:
            self.requested = ""
            member.cut()

    def read(self, member: Member, tenure: Tenure) -> None:
        member.peer.flow(0, link_credit=100)
        while not self.ended.is_set():
            if self.requested == "close":
                member.close()
            if self.requested:
                return
            if not self.ready(member):
                continue
            frame = member.peer.receive()
            if frame is None or frame.kind in ("detach", "close"):
                return
            if frame.kind == "transfer":
                annotations = delivery_annotations(frame.payload, walk(frame.payload))
                tenure.offsets.append(int(annotations["event-streams-offset"]))
                member.peer.disposition(frame.delivery_id, "accepted")
                if len(tenure.offsets) % 50 == 0:
                    member.peer.flow(0, delivery_count=len(tenure.offsets), link_credit=100)

    @staticmethod
    def ready(member: Member) -> bool:
        """Whether something arrives within a moment."""
        return bool(select.select([member.peer._socket], [], [], 0.1)[0])


class Writer(threading.Thread):
    """Writes numbered events to every partition, and records when each write began."""

    def __init__(self, broker: KafkaBroker, topic: str, history: History) -> None:
        super().__init__(name="writer", daemon=True)
        self.topic, self.history, self.ended = topic, history, threading.Event()
        self.producer = new_producer(broker.bootstrap, **{"linger.ms": 0})

    def run(self) -> None:
        number = 0
        while not self.ended.is_set():
            self.write(number % PARTITIONS, b"%d" % number)
            self.producer.poll(0)
            time.sleep(PACE)
            number += 1
        self.producer.flush(PATIENCE)

    def write(self, partition: int, value: bytes) -> None:
        began = time.monotonic()

        def written(error: object, record: object) -> None:
            assert error is None, error
            self.history.added[partition, record.offset()] = began  # type: ignore[attr-defined]

        self.producer.produce(self.topic, value, partition=partition, on_delivery=written)


class Chaos:
    """Causes one failure after another, chosen by the seed; never at both gateways at once."""

    def __init__(self, pair: GatewayPair, consumers: list[Consumer], address: str) -> None:
        self.pair, self.consumers, self.address = pair, consumers, address
        self.random = random.Random(SEED)
        self.done: Counter[str] = Counter()

    def go(self, seconds: float) -> None:
        actions = [self.stop, self.stop, self.kill, self.nap, self.lose, self.lose, self.deal]
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            time.sleep(self.random.uniform(0.1, 1.0))
            action = self.random.choice(actions)
            self.done[action.__name__] += 1
            action(self.random.choice(self.pair))

    def stop(self, gateway: Gateway) -> None:
        self.asleep(gateway, LEASE * self.random.uniform(1.1, 1.8))

    def nap(self, gateway: Gateway) -> None:
        self.asleep(gateway, LEASE * self.random.uniform(0.1, 0.9))

    @staticmethod
    def asleep(gateway: Gateway, seconds: float) -> None:
        gateway.process.send_signal(signal.SIGSTOP)
        try:
            time.sleep(seconds)
        finally:
            gateway.process.send_signal(signal.SIGCONT)

    def kill(self, gateway: Gateway) -> None:
        gateway.kill()
        time.sleep(self.random.uniform(0, LEASE))
        gateway.restart()

    def lose(self, _: Gateway) -> None:
        self.random.choice(self.consumers).requested = self.random.choice(["cut", "close"])

    def deal(self, gateway: Gateway) -> None:
        url = f"http://{gateway.http}/groups/rebalance?scope=edge&address={self.address}&group=random"
        with contextlib.suppress(OSError), urllib.request.urlopen(
            urllib.request.Request(url, method="POST"), timeout=5
        ) as response:
            response.read()


@pytest.fixture
def own_redis() -> Iterator[Redis]:
    server = Redis()
    yield server
    server.stop()


@pytest.mark.soak
@pytest.mark.row("ES-4.5-8")
def test_one_owner_at_a_time_whatever_happens(
    start_gateway: Gateways, kafka_broker: KafkaBroker, own_redis: Redis
) -> None:
    print(f"\nSCOPEGATE_SEED={SEED} SCOPEGATE_SECONDS={SECONDS:g}")
    pair = start_pair(start_gateway, kafka_broker, own_redis, LEASE)
    topic, history = kafka_broker.create_topic(partitions=PARTITIONS), History()
    address = f"pend/{topic}"
    consumers = [Consumer(number, (pair.a, pair.b), address, history) for number in range(CONSUMERS)]
    writer, chaos = Writer(kafka_broker, topic, history), Chaos(pair, consumers, address)
    for consumer in consumers:
        consumer.start()
    try:
        owned = lambda: len({tenure.partition for tenure in history.tenures}) == PARTITIONS  # noqa: E731
        wait_until(owned, "an owner of each partition")  # the group has a position from here on
        writer.start()
        chaos.go(SECONDS)
        writer.ended.set()
        writer.join(PATIENCE)
        wait_until(lambda: not history.missing(), "every event to reach a member", 3 * PATIENCE)
    except AssertionError:
        print(group_state(pair.second, address, "random"), Counter(partition for partition, _ in history.missing()))
        raise
    finally:
        writer.ended.set()
        for consumer in consumers:
            consumer.ended.set()
        for consumer in consumers:
            consumer.join(PATIENCE)
    delivered = sum(len(tenure.offsets) for tenure in history.tenures)
    print(f"{dict(chaos.done)}; {len(history.tenures)} links, {len(history.added)} events, {delivered} deliveries")
    assert list(history.wrongs()) == []
    assert len(history.tenures) > CONSUMERS


def test_the_judge_sees_what_is_wrong() -> None:
    history = History([Tenure(1, 0, 0, 10.0, [0, 1]), Tenure(2, 0, 1, 20.0, [1, 2])], {(0, 0): 5.0, (0, 1): 15.0})
    assert list(history.wrongs()) == []
    history.added[0, 1] = 20.5
    assert [wrong.split(":")[0] for wrong in history.wrongs()] == ["two owners"]
    history.added |= {(0, 1): 15.0, (0, 3): 1.0}
    history.tenures[1].offsets.reverse()
    assert [wrong.split(":")[0] for wrong in history.wrongs()] == ["out of order", "never delivered"]
