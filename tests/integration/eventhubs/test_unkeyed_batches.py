"""Which partition the events of a batch go to that name none (EH-9)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from azure.eventhub import EventData, EventHubProducerClient
from confluent_kafka import Consumer, TopicPartition

from gateway.amqp.message import sections
from tests.support.eventhubs.hubs import HubGateway, sas
from tests.support.eventhubs.peer import BATCH, HubPeer, batch, data
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE


@pytest.fixture(scope="module", params=["kafka", "service"])
def hubs(request: pytest.FixtureRequest, start_module_gateway: Gateways) -> HubGateway:
    return HubGateway(start_module_gateway, partition_key=request.param)


@pytest.fixture
def hub(hubs: HubGateway) -> str:
    return hubs.hub()


@pytest.fixture
def client(hubs: HubGateway, hub: str) -> Iterator[HubPeer]:
    """A peer that sends to the hub, to any partition."""
    with HubPeer(hubs.port) as peer:
        assert peer.put_token(hubs.resource(hub), sas(hubs.resource(hub))).status == 202
        peer.attach_sender(hub)
        yield peer


def written(hubs: HubGateway, hub: str, count: int) -> Mapping[int, list[bytes]]:
    """The values in each partition, in order."""
    found: dict[int, list[bytes]] = {partition: [] for partition in range(3)}
    consumer = Consumer({"bootstrap.servers": hubs.kafka.bootstrap, "group.id": "test"})
    consumer.assign([TopicPartition(hub, partition, 0) for partition in found])
    try:
        for each in consumer.consume(count, PATIENCE):
            found[each.partition()].append(each.value())
        ends = [consumer.get_watermark_offsets(TopicPartition(hub, each), timeout=PATIENCE)[1] for each in found]
    finally:
        consumer.close()
    assert sum(ends) == count
    return found


def send(client: HubPeer, whole: bytes) -> None:
    client.transfer_whole(whole, message_format=BATCH)
    assert client.until("disposition", first=client.last_delivery).state.name == "accepted"


@pytest.mark.row("EH-9")
def test_each_batch_goes_to_one_partition_and_the_next_one_to_another(
    hubs: HubGateway, hub: str, client: HubPeer
) -> None:
    batches = [[b"%d-%d" % (number, each) for each in range(size)] for number, size in enumerate((50, 5000, 700))]
    for bodies in batches:
        send(client, batch(*map(data, bodies)))
    assert sorted(written(hubs, hub, 5750).values()) == sorted(batches)


@pytest.mark.row("EH-9")
def test_forms_that_are_not_usual_stay_with_the_others(hubs: HubGateway, hub: str, client: HubPeer) -> None:
    usual = [data(b"%d" % number) for number in range(40)]
    odd = [sections.section(sections.AMQP_VALUE, number) for number in range(40)]
    send(client, batch(*[each for pair in zip(usual, odd, strict=True) for each in pair]))
    assert sorted(map(len, written(hubs, hub, 80).values())) == [0, 0, 80]


@pytest.mark.row("EH-10")
def test_events_of_a_batch_that_have_keys_go_where_their_keys_belong(
    hubs: HubGateway, hub: str, client: HubPeer
) -> None:
    keys = [f"key-{number}" for number in range(30)]
    for key in keys:
        client.transfer(data(key.encode(), **{"x-opt-partition-key": key}))
        assert client.until("disposition", first=client.last_delivery).state.name == "accepted"
    alone = written(hubs, hub, 30)
    send(client, batch(*(data(key.encode(), **{"x-opt-partition-key": key}) for key in keys)))
    assert written(hubs, hub, 60) == {partition: bodies * 2 for partition, bodies in alone.items()}


@pytest.mark.row("EH-9")
def test_a_batch_of_the_client_for_python_is_in_one_partition(hubs: HubGateway, hub: str) -> None:
    producer = EventHubProducerClient.from_connection_string(hubs.connection(), eventhub_name=hub)
    with producer:
        whole = producer.create_batch()
        for number in range(60):
            event = EventData(b"%d" % number)
            event.properties = {"number": number}
            whole.add(event)
        producer.send_batch(whole)
    assert max(written(hubs, hub, 60).values()) == [b"%d" % number for number in range(60)]
