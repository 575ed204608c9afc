"""Processors of the Python client: shared partitions, checkpoints, the asynchronous client, restarts (EH-12)."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from azure.eventhub import CheckpointStore, EventData, EventHubConsumerClient, EventHubProducerClient
from azure.eventhub import aio as eventhubs

from tests.support.eventhubs.hubs import HubGateway
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers.kafka import KafkaBroker, writing

PERSISTENT: dict[str, Any] = {"retry_total": 600, "retry_mode": "fixed", "retry_backoff_factor": 0.1}
"""Retries at short intervals: the client's own back-off soon waits for many seconds."""


class Checkpoints(CheckpointStore):
    """Checkpoints and owners in memory, shared by the consumers of a test."""

    def __init__(self) -> None:
        self.owners: dict[str, dict[str, Any]] = {}
        self.checkpoints: dict[str, dict[str, Any]] = {}
        self._lock = threading.Lock()
        self._changes = 0

    def list_ownership(self, *where: str, **_: Any) -> list[dict[str, Any]]:
        with self._lock:
            return [dict(each) for each in self.owners.values()]

    def claim_ownership(self, ownership_list: Any, **_: Any) -> list[dict[str, Any]]:
        claimed = []
        with self._lock:
            for each in ownership_list:
                known = self.owners.get(each["partition_id"])
                if known is None or known["etag"] == each.get("etag"):
                    self._changes += 1
                    owned = {**each, "etag": str(self._changes), "last_modified_time": time.time()}
                    self.owners[each["partition_id"]] = owned
                    claimed.append(dict(owned))
        return claimed

    def update_checkpoint(self, checkpoint: Any, **_: Any) -> None:
        with self._lock:
            self.checkpoints[checkpoint["partition_id"]] = dict(checkpoint)

    def list_checkpoints(self, *where: str, **_: Any) -> list[dict[str, Any]]:
        with self._lock:
            return [dict(each) for each in self.checkpoints.values()]


class Consumer:
    """A consumer in a thread of its own."""

    def __init__(self, hubs: HubGateway, hub: str, store: Checkpoints) -> None:
        self.partitions: set[str] = set()
        self.bodies: list[str] = []
        self._client = EventHubConsumerClient.from_connection_string(
            hubs.connection(),
            consumer_group="$Default",
            eventhub_name=hub,
            checkpoint_store=store,
            load_balancing_interval=0.2,
            partition_ownership_expiration_interval=30,
            **PERSISTENT,
        )
        begin = {
            "on_partition_initialize": lambda context: self.partitions.add(context.partition_id),
            "on_partition_close": lambda context, reason: self.partitions.discard(context.partition_id),
            "starting_position": "-1",
        }
        self._thread = threading.Thread(target=self._client.receive, args=(self._on_event,), kwargs=begin)
        self._thread.start()

    def _on_event(self, context: Any, event: EventData) -> None:
        context.update_checkpoint(event)
        self.bodies.append(event.body_as_str())  # whoever sees it sees that nobody will read it again

    def close(self) -> None:
        """Let go of all partitions, without waiting for it."""
        self._client.close()

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join(PATIENCE)


@pytest.fixture(scope="module")
def hubs(start_module_gateway: Gateways) -> HubGateway:
    return HubGateway(start_module_gateway)


def fill(hubs: HubGateway, hub: str, bodies: list[str]) -> None:
    """Write to each partition in turn, as a Kafka client: the producers of Event Hubs' client connect for each one."""
    with writing(hubs.kafka.bootstrap) as produce:
        for number, body in enumerate(bodies):
            produce(hub, body, partition=number % 3)


@pytest.mark.row("EH-7", "EH-12")
def test_four_consumers_share_three_partitions(hubs: HubGateway) -> None:
    hub, store = hubs.hub(), Checkpoints()
    first = [f"first {number}" for number in range(9)]
    fill(hubs, hub, first)
    consumers = [Consumer(hubs, hub, store)]
    wait_until(lambda: len(consumers[0].bodies) == 9, "the first consumer to read everything", 2 * PATIENCE)
    consumers += [Consumer(hubs, hub, store) for _ in range(3)]
    try:
        wait_until(
            lambda: sorted(len(each.partitions) for each in consumers) == [0, 1, 1, 1],
            "each partition to have a consumer of its own",
            2 * PATIENCE,
        )
        fill(hubs, hub, [f"second {number}" for number in range(9)])
        wait_until(lambda: sum(len(each.bodies) for each in consumers) >= 18, "all events", 2 * PATIENCE)
    finally:
        for each in consumers:
            each.close()
        for each in consumers:
            each.join()
    read = [body for each in consumers for body in each.bodies]
    assert sorted(read) == sorted([*first, *(f"second {number}" for number in range(9))])
    assert {int(each["sequence_number"]) for each in store.checkpoints.values()} == {5}


@pytest.mark.row("EH-12")
async def test_the_asynchronous_client(hubs: HubGateway) -> None:
    hub = hubs.hub()
    producer = eventhubs.EventHubProducerClient.from_connection_string(hubs.connection(), eventhub_name=hub)
    async with producer:
        batch = await producer.create_batch(partition_id="2")
        for number in range(3):
            batch.add(EventData(f"async {number}"))
        await producer.send_batch(batch)
        assert await producer.get_partition_ids() == ["0", "1", "2"]
    consumer = eventhubs.EventHubConsumerClient.from_connection_string(
        hubs.connection(), consumer_group="$Default", eventhub_name=hub
    )
    found: list[tuple[str, int]] = []
    done = asyncio.Event()

    async def on_event(context: Any, event: EventData) -> None:
        found.append((event.body_as_str(), event.sequence_number or 0))
        if len(found) == 3:
            done.set()

    async with consumer:
        receiving = asyncio.get_running_loop().create_task(
            consumer.receive(on_event=on_event, starting_position="-1", track_last_enqueued_event_properties=True)
        )
        await asyncio.wait_for(done.wait(), PATIENCE)
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)
    assert found == [("async 0", 0), ("async 1", 1), ("async 2", 2)]


@pytest.mark.row("EH-12")
def test_clients_survive_a_restart_of_the_gateway(kafka_broker: KafkaBroker, start_gateway: Gateways) -> None:
    hub, store = kafka_broker.create_topic(partitions=3), Checkpoints()
    restarted = HubGateway(start_gateway, at=kafka_broker)
    producer = EventHubProducerClient.from_connection_string(
        restarted.connection(), eventhub_name=hub, **PERSISTENT
    )
    consumer = Consumer(restarted, hub, store)
    try:
        producer.send_event(EventData("before"), partition_id="0")
        wait_until(lambda: consumer.bodies == ["before"], "the first event")
        restarted.gateway.stop()
        assert restarted.gateway.wait_log("draining", unsettled=0)  # this client settles nothing: none may wait for it
        restarted.gateway.restart()
        producer.send_event(EventData("after"), partition_id="0")
        wait_until(lambda: "after" in consumer.bodies, "the event after the restart", 2 * PATIENCE)
    finally:
        producer.close()
        consumer.close()
        consumer.join()
    assert consumer.bodies == ["before", "after"]
