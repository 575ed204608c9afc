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


async def python_clients(connection: str, hub: str, about: dict[str, Any]) -> None:
    """Both clients for Python send an event each, and receive those of both."""
    sync = EventHubProducerClient.from_connection_string(connection, eventhub_name=hub, **about)
    with sync:
        sync.send_event(EventData("synchronous"), partition_id="1")
    producer = eventhubs.EventHubProducerClient.from_connection_string(connection, eventhub_name=hub, **about)
    async with producer:
        await producer.send_event(EventData("asynchronous"), partition_id="1")

    where = {"consumer_group": "$Default", "eventhub_name": hub, **about}
    begin: dict[str, Any] = {"partition_id": "1", "starting_position": "-1"}
    found: asyncio.Queue[str] = asyncio.Queue()

    async def on_event(_: Any, event: EventData) -> None:
        await found.put(event.body_as_str())

    consumer = eventhubs.EventHubConsumerClient.from_connection_string(connection, **where)
    async with consumer:
        receiving = asyncio.get_running_loop().create_task(consumer.receive(on_event=on_event, **begin))
        async with asyncio.timeout(PATIENCE):
            assert [await found.get(), await found.get()] == ["synchronous", "asynchronous"]
        receiving.cancel()  # else it waits for half a minute
        await asyncio.gather(receiving, return_exceptions=True)

    blocking, bodies, done = EventHubConsumerClient.from_connection_string(connection, **where), [], threading.Event()

    def on_any(_: Any, event: EventData) -> None:
        bodies.append(event.body_as_str())
        if len(bodies) == 2:
            done.set()

    thread = threading.Thread(target=blocking.receive, args=(on_any,), kwargs=begin)
    thread.start()
    done.wait(PATIENCE)
    blocking.close()
    thread.join()
    assert bodies == ["synchronous", "asynchronous"]


@pytest.mark.row("EH-13")
async def test_each_client_sends_and_receives(
    hubs: HubGateway, start_gateway: Gateways, authority: Authority
) -> None:
    """Those for Python with and without TLS, the one for JavaScript with it; it reads what the others have sent."""
    await python_clients(hubs.connection(), hubs.hub(), over_websockets(hubs))

    secure = HubGateway(start_gateway, tls=authority.server(), websocket=PATH)
    hub, place = secure.hub(), f"sb://localhost:{secure.port}"
    connection = f"Endpoint=sb://localhost/;SharedAccessKeyName=app;SharedAccessKey={KEYS['app']}"
    about = {**over_websockets(secure), "custom_endpoint_address": place, "connection_verify": str(authority.ca)}
    await python_clients(connection, hub, about)

    javascript = HubClient("js", secure, hub, {"WEBSOCKET_CA": str(authority.ca)})
    javascript.send()
    found = {each["body"] for each in javascript.receive(7)}
    sent = (f"js {what}" for what in ("single", "0", "1", "2", "keyed"))
    assert found == {"synchronous", "asynchronous", *sent}
