"""The unmodified clients for JavaScript, Go, Java and Python: what one of them sends, the others receive (EH-12)."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from proton import Described, symbol
from proton.reactor import Filter

from tests.support.amqp.proton_clients import Login, receive
from tests.support.eventhubs.foreign import LIBRARIES, HubClient, finished, messages
from tests.support.eventhubs.hubs import HubGateway
from tests.support.eventhubs.java import JavaClient, JavaHubs
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers.kafka import KafkaBroker, writing

FIELDS = ("body", "partition", "sequenceNumber", "offset", "enqueued")


@pytest.fixture(scope="module")
def hubs(start_module_gateway: Gateways) -> HubGateway:
    return HubGateway(start_module_gateway)


@pytest.fixture(scope="module")
def java() -> Iterator[JavaHubs]:
    found = JavaHubs()
    yield found
    found.kill()


def sent(library: str) -> set[str]:
    """The bodies of the usual events."""
    return {f"{library} {what}" for what in ("single", "0", "1", "2", "keyed")}


def covered(checkpoints: Path) -> int:
    """How many events lie before the checkpoints of a file, as each of the libraries writes it."""
    found = json.loads(checkpoints.read_text()) if checkpoints.exists() else {}
    known = [at if isinstance(at, int) else at.get("sequenceNumber", at.get("SequenceNumber")) for at in found.values()]
    return sum(1 + number for number in known)


def kafka_records(hubs: HubGateway, hub: str, count: int) -> list[tuple[str, str, int, str, int]]:
    """The records of a topic as a Kafka client reads them, in the fields of an event."""
    consumer = Consumer({"bootstrap.servers": hubs.kafka.bootstrap, "group.id": "test"})
    consumer.assign([TopicPartition(hub, partition, 0) for partition in range(3)])
    try:
        found = consumer.consume(count, PATIENCE)
    finally:
        consumer.close()
    return sorted(
        (each.value().decode(), str(each.partition()), each.offset(), str(each.offset()), each.timestamp()[1])
        for each in found
    )


@pytest.mark.row("EH-12", part="each with each")
def test_each_receives_what_the_others_sent(hubs: HubGateway, java: JavaHubs, tmp_path: Path) -> None:
    hub = hubs.hub()
    clients: dict[str, HubClient | JavaClient] = {library: HubClient(library, hubs, hub) for library in LIBRARIES}
    clients["java"] = java.at(hubs, hub)
    for client in clients.values():
        told = client.send()
        assert [each["partitions"] for each in told if each["event"] == "hub"] == [["0", "1", "2"]]

    bodies = sorted(set().union(*map(sent, clients)))
    found = {library: client.receive(len(bodies), tmp_path / library) for library, client in clients.items()}

    for got in found.values():
        assert sorted(each["body"] for each in got) == bodies
        assert {each["body"]: each["properties"] for each in got if each["properties"]} == {
            f"{library} single": {"color": "red"} for library in clients
        }
        keyed = [each for each in got if each["body"].endswith("keyed")]
        assert {each["partitionKey"] for each in keyed} == {"key"}
        assert len({each["partition"] for each in keyed}) == 1
        assert sorted(tuple(each[field] for field in FIELDS) for each in got) == kafka_records(hubs, hub, len(bodies))


@pytest.mark.row("EH-12", part="JavaScript, Go and Python")
@pytest.mark.parametrize("library", LIBRARIES)
def test_checkpoints_outlive_a_kill(hubs: HubGateway, tmp_path: Path, library: str) -> None:
    hub, checkpoints = hubs.hub(), tmp_path / "checkpoints.json"
    client = HubClient(library, hubs, hub)
    client.send()
    first = client.start("subscribe", "$Default", "100", str(checkpoints))
    wait_until(lambda: covered(checkpoints) == 5, "checkpoints behind all five events")
    first.end(signal.SIGKILL)
    assert {each["body"] for each in messages(first)} == sent(library)

    other = "js" if library == "go" else "go"
    HubClient(other, hubs, hub).send()
    assert {each["body"] for each in client.receive(5, checkpoints)} == sent(other)


@pytest.mark.row("EH-12", part="Java")
def test_checkpoints_outlive_a_kill_of_a_java(hubs: HubGateway, java: JavaHubs, tmp_path: Path) -> None:
    hub, checkpoints = hubs.hub(), tmp_path / "checkpoints.json"
    client = java.at(hubs, hub)
    client.send()
    first = client.run("subscribe", "$Default", 100, checkpoints)
    wait_until(lambda: covered(checkpoints) == 5, "checkpoints behind all five events")
    assert {each["body"] for each in first.events()} == sent("java")
    java.kill()

    HubClient("go", hubs, hub).send()
    assert {each["body"] for each in client.receive(5, checkpoints)} == sent("go")


def timed(hubs: HubGateway) -> tuple[str, dict[tuple[str, str], int]]:
    """A hub with five events in partition 1, and the first one behind each position."""
    hub = hubs.hub()
    times = [1_700_000_000_000 + 1000 * number for number in range(5)]
    with writing(hubs.kafka.bootstrap) as produce:
        for number, at in enumerate(times):
            produce(hub, f"event {number}", partition=1, timestamp=at)
    late = str(times[2])
    return hub, {("offset", "1"): 2, ("sequence", "2"): 3, ("from", "2"): 2, ("time", late): 3, ("earliest", ""): 0}


@pytest.mark.row("EH-6", "EH-12", part="Java")
def test_positions_of_a_java(hubs: HubGateway, java: JavaHubs) -> None:
    hub, cases = timed(hubs)
    client = java.at(hubs, hub)
    reads = {case: client.run("read", "1", 5 - first, *case) for case, first in cases.items()}

    found = {case: [each["sequenceNumber"] for each in read.finish()] for case, read in reads.items()}
    assert found == {case: list(range(first, 5)) for case, first in cases.items()}


@pytest.mark.row("EH-6", "EH-12", part="JavaScript, Go and Python")
@pytest.mark.parametrize("library", LIBRARIES)
def test_positions(hubs: HubGateway, library: str) -> None:
    hub, cases = timed(hubs)
    client = HubClient(library, hubs, hub)
    reads = {case: client.start("read", "1", str(5 - first), *case) for case, first in cases.items()}

    found = {case: [each["sequenceNumber"] for each in finished(read)] for case, read in reads.items()}
    assert found == {case: list(range(first, 5)) for case, first in cases.items()}


@pytest.fixture
def restarted(kafka_broker: KafkaBroker, start_gateway: Gateways) -> HubGateway:
    """A gateway that may be restarted: its events are in a broker."""
    return HubGateway(start_gateway, at=kafka_broker)


@pytest.mark.row("EH-12", part="Java")
def test_a_producer_of_java_survives_a_restart_of_the_gateway(
    restarted: HubGateway, kafka_broker: KafkaBroker, java: JavaHubs
) -> None:
    client = java.at(restarted, kafka_broker.create_topic(partitions=3))
    client.run("one", "0", "before").finish()
    _restart(restarted)

    client.run("one", "0", "after").finish()

    assert [each["body"] for each in client.run("read", "0", 2, "earliest", "").finish()] == ["before", "after"]


@pytest.mark.soak  # the processor itself waits for ten seconds and more before it connects again
def test_a_java_processor_survives_a_restart_of_the_gateway(
    restarted: HubGateway, kafka_broker: KafkaBroker, java: JavaHubs, tmp_path: Path
) -> None:
    client = java.at(restarted, kafka_broker.create_topic(partitions=3))
    reading = client.run("subscribe", "$Default", 2, tmp_path / "checkpoints.json")
    client.run("one", "0", "before").finish()
    reading.wait("message", 1)
    _restart(restarted)

    client.run("one", "0", "after").finish()

    assert [each["body"] for each in reading.finish()] == ["before", "after"]


@pytest.mark.row("EH-12", part="JavaScript and Go")
@pytest.mark.parametrize("library", [pytest.param("js", marks=pytest.mark.soak), "go"])  # js waits for half a minute
def test_subscriptions_survive_a_restart_of_the_gateway(
    restarted: HubGateway, kafka_broker: KafkaBroker, tmp_path: Path, library: str
) -> None:
    client = HubClient(library, restarted, kafka_broker.create_topic(partitions=3))
    client.send()
    reading = client.start("subscribe", "$Default", "10", str(tmp_path / "checkpoints.json"))
    try:
        wait_until(lambda: len(messages(reading)) == 5, "the events before the restart")
        _restart(restarted)
        client.send()
        wait_until(lambda: len(messages(reading)) >= 10, "the events after the restart")
    finally:
        reading.discard()
    assert Counter(each["body"] for each in messages(reading)) == Counter([*sent(library), *sent(library)])


def _restart(hubs: HubGateway) -> None:
    hubs.gateway.stop()
    hubs.gateway.restart()


@pytest.mark.row("EH-12", part="other AMQP clients")
def test_any_amqp_client_reads_the_same_events(hubs: HubGateway) -> None:
    hub = hubs.hub()
    HubClient("js", hubs, hub).send()
    position = "amqp:event-streams-delivery-annotations-filter"
    start = Filter({symbol("at"): Described(symbol(position), {symbol("event-streams-offset"): symbol("@earliest")})})
    found = [each.message for each in receive(Login(hubs.plain), f"events/{hub}", 5, options=start).finish()]
    assert sorted(bytes(each.body).decode() for each in found) == ["js 0", "js 1", "js 2", "js keyed", "js single"]
    (keyed,) = [each for each in found if bytes(each.body) == b"js keyed"]
    assert keyed.annotations == {symbol("event-streams-group-key"): "key"}
    assert [each.properties for each in found if each.properties] == [{"color": "red"}]
