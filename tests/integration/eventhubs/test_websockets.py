"""Event Hubs' clients over WebSockets, as they use them where only the port of HTTPS is open (EH-13)."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from azure.eventhub import EventData, EventHubConsumerClient, EventHubProducerClient, TransportType
from azure.eventhub import aio as eventhubs

from tests.support.eventhubs.foreign import HubClient
from tests.support.eventhubs.hubs import KEYS, HubGateway
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE
from tests.support.servers.certs import Authority

PATH = "/$servicebus/websocket"


@pytest.fixture(scope="module")
def hubs(start_module_gateway: Gateways) -> HubGateway:
    return HubGateway(start_module_gateway, websocket=PATH)


def over_websockets(hubs: HubGateway) -> dict[str, Any]:
    """What an application sets; the address is only needed for another port than that of HTTPS."""
    place = f"sb://127.0.0.1:{hubs.port}"
    return {"transport_type": TransportType.AmqpOverWebsocket, "custom_endpoint_address": place, "retry_total": 0}


@pytest.mark.row("EH-13", part="Python")
def test_the_client_for_python(hubs: HubGateway) -> None:
    hub = hubs.hub()
    about = {"eventhub_name": hub, **over_websockets(hubs)}
    producer = EventHubProducerClient.from_connection_string(hubs.connection(), **about)
    with producer:
        batch = producer.create_batch(partition_id="1")
        for number in range(3):
            batch.add(EventData(bytes([number]) * 100_000))  # more than a frame
        producer.send_batch(batch)
        assert producer.get_partition_properties("1")["last_enqueued_sequence_number"] == 2
    consumer = EventHubConsumerClient.from_connection_string(hubs.connection(), consumer_group="$Default", **about)
    found: list[bytes] = []
    done = threading.Event()

    def on_event(_: Any, event: EventData) -> None:
        found.append(b"".join(event.body))
        if len(found) == 3:
            done.set()

    begin = {"partition_id": "1", "starting_position": "-1"}
    thread = threading.Thread(target=consumer.receive, args=(on_event,), kwargs=begin)
    thread.start()
    done.wait(PATIENCE)
    consumer.close()
    thread.join()
    assert found == [bytes([number]) * 100_000 for number in range(3)]


@pytest.mark.row("EH-13", part="Python, asynchronous")
async def test_the_asynchronous_client_for_python(hubs: HubGateway) -> None:
    hub = hubs.hub()
    about = {"eventhub_name": hub, **over_websockets(hubs)}
    producer = eventhubs.EventHubProducerClient.from_connection_string(hubs.connection(), **about)
    async with producer:
        await producer.send_event(EventData("asynchronous"), partition_id="0")
    consumer = eventhubs.EventHubConsumerClient.from_connection_string(
        hubs.connection(), consumer_group="$Default", **about
    )
    found: asyncio.Queue[str] = asyncio.Queue()

    async def on_event(_: Any, event: EventData) -> None:
        await found.put(event.body_as_str())

    async with consumer:
        begin = {"on_event": on_event, "partition_id": "0", "starting_position": "-1"}
        receiving = asyncio.get_running_loop().create_task(consumer.receive(**begin))
        assert await asyncio.wait_for(found.get(), PATIENCE) == "asynchronous"
        receiving.cancel()
        await asyncio.gather(receiving, return_exceptions=True)


@pytest.mark.row("EH-13", part="TLS, JavaScript")
def test_tls_and_the_client_for_javascript(start_gateway: Gateways, authority: Authority) -> None:
    hubs = HubGateway(start_gateway, tls=authority.server(), websocket=PATH)
    hub = hubs.hub()
    connection = f"Endpoint=sb://localhost/;SharedAccessKeyName=app;SharedAccessKey={KEYS['app']}"
    about = {**over_websockets(hubs), "custom_endpoint_address": f"sb://localhost:{hubs.port}"}
    client = EventHubProducerClient.from_connection_string(
        connection, eventhub_name=hub, connection_verify=str(authority.ca), **about
    )
    with client:
        client.send_event(EventData("python over TLS"), partition_id="2")

    javascript = HubClient("js", hubs, hub, {"WEBSOCKET_CA": str(authority.ca)})
    javascript.send()
    found = {each["body"] for each in javascript.receive(6)}

    assert found == {"python over TLS", *(f"js {what}" for what in ("single", "0", "1", "2", "keyed"))}
