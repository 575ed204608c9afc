"""Transactions of unmodified client libraries on topics of a real Kafka, and what kills do to them (KM-14)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

import pytest

from tests.support.amqp.foreign import jms_command
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, Process, wait_until
from tests.support.plugins.fixtures import served
from tests.support.servers.kafka import KafkaBroker, writing
from tests.support.servers.servers import Redis
from tests.support.servers.three_kafkas import KafkaBrokers
from tests.support.transactions.clients import done, transacting
from tests.support.transactions.topics import committed

INPUTS = 40
"""Before each kill."""


@pytest.mark.parametrize("library", ["jms", "protonj2"])
def test_clients_send_receive_and_transform_in_transactions(
    start_gateway: Gateways, kafka_broker: KafkaBroker, library: str
) -> None:
    """Messages that are sent, received, and made of others; rollbacks bring those that were received again."""
    document = Document(id=f"gw-{library}")
    document.kafka(kafka_broker.bootstrap)
    start_gateway(document.text)
    inputs, outputs = kafka_broker.create_topic(), kafka_broker.create_topic()
    done(transacting(library, document.edge, f"events/{inputs}", f"events/{outputs}"))
    assert len(committed(kafka_broker.bootstrap, inputs)) == 3
    made = [value[value.index(b"out of") :] for value in committed(kafka_broker.bootstrap, outputs)]
    assert made == [b"out of in %d" % number for number in range(3)]


class Work:
    """A JMS client that consumes, transforms and produces in transacted sessions, until it has done all inputs."""

    def __init__(self, document: Document, inputs: str, outputs: str) -> None:
        self._command = [*jms_command("TransactedWork"), f"amqp://127.0.0.1:{document.edge}", f"jms-{inputs}"]
        self._command += [f"events/{inputs}", f"events/{outputs}"]
        self.process = self._start()

    def _start(self) -> Process:
        return Process("jms-work", self._command)

    def count(self, line: str) -> int:
        """How often the client has printed a line."""
        return self.process.text().splitlines().count(line)

    def goes_on(self) -> None:
        """Wait until it has committed once more."""
        before = self.count("committed")
        wait_until(lambda: self.count("committed") > before, "another transaction", 3 * PATIENCE)

    def replace(self) -> None:
        """Kill the client, and start another one."""
        self.process.discard()
        self.process = self._start()


def consumed_once(
    bootstrap: str,
    document: Document,
    topics: tuple[str, str],
    kills: list[Callable[[Work], None]],
    ready: Callable[[], object] = lambda: None,
    portion: int = INPUTS,
) -> None:
    """Let a client work while others are killed: then each input has one output.

    Before each kill, `ready` is called, and there is one more portion of inputs: the client has work to go on with.
    """
    inputs, outputs = topics
    work = Work(document, inputs, outputs)
    try:
        wait_until(lambda: work.count("attached"), "the client to attach")
        for at, kill in enumerate(kills):
            ready()
            with writing(bootstrap) as write:
                for number in range(at * portion, (at + 1) * portion):
                    write(inputs, b"in %d" % number)
            work.goes_on()
            kill(work)

        def seen() -> Counter[bytes]:
            return Counter(body[body.index(b"made of") :] for body in committed(bootstrap, outputs))

        wait_until(lambda: len(seen()) == portion * len(kills), "all outputs", 3 * PATIENCE)
        assert set(seen().values()) == {1}
    finally:
        work.process.discard()


def test_each_input_of_a_jms_client_is_consumed_once_whatever_is_killed(
    start_gateway: Gateways, kafka_broker: KafkaBroker, redis_server: Redis
) -> None:
    document = Document(id="gw-jms-work", state=redis_server.url, lease="1s")
    document.kafka(kafka_broker.bootstrap)
    gateway = start_gateway(document.text)

    def restart(_: Work) -> None:
        gateway.kill()
        gateway.restart()

    topics = kafka_broker.create_topic(), kafka_broker.create_topic()
    consumed_once(kafka_broker.bootstrap, document, topics, [restart, Work.replace, restart])


@pytest.fixture
def brokers() -> Iterator[KafkaBrokers]:
    """Three brokers that the test may kill."""
    yield from served(KafkaBrokers())


@pytest.mark.soak
def test_each_input_of_a_jms_client_is_consumed_once_when_leaders_die(
    start_gateway: Gateways, brokers: KafkaBrokers, redis_server: Redis
) -> None:
    """Those of the topics, of the transactions, and of the groups' positions; each goes on without its leader."""
    document = Document(id="gw-jms-leaders", state=redis_server.url, lease="1s")
    document.kafka(brokers.bootstrap)
    gateway = start_gateway(document.text)
    inputs, outputs = topics = brokers.create_topic(), brokers.create_topic()
    led = (inputs, outputs, "__transaction_state", "__consumer_offsets")

    def replicated() -> object:
        # A second death while there are two replicas only would leave none that takes a record.
        return wait_until(lambda: all(brokers.in_sync(each) == 3 for each in led), "three replicas", 3 * PATIENCE)

    def kill_leader(topic: str) -> Callable[[Work], None]:
        def kill(work: Work) -> None:
            broker = brokers.brokers[brokers.leader(topic)]
            broker.kill()
            work.goes_on()
            broker.start()

        return kill

    kills = [kill_leader(topic) for topic in led]
    consumed_once(brokers.bootstrap, document, topics, kills, replicated, 3 * INPUTS)
    gateway.stop()
