"""One event pushed to every protocol, end to end (CE-E2E-6 to -8): created by HTTP, read back by ordinary clients."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import nats
import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from tests.support.amqp.proton_clients import Login, receive
from tests.support.cloudevents.mqtt_reader import MqttReader
from tests.support.gateway.gateway import Gateway, Gateways
from tests.support.gateway.process import PATIENCE, wait_until
from tests.support.servers.embedded_kafka import EmbeddedKafka
from tests.support.servers.sink_servers import Mosquitto, NatsServer
from tests.support.subscriptions.api import PATH, ApiClient, EventWriter, api_port, subscription_policy

LOCAL = {"networks": ["127.0.0.0/8"]}


class World(NamedTuple):
    """A gateway, its sinks, and who writes events."""

    gateway: Gateway
    client: ApiClient
    events: EventWriter
    edge: int
    mosquitto: Mosquitto
    nats: NatsServer
    bootstrap: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, start_module_gateway: Gateways) -> Iterator[World]:
    mosquitto, server = Mosquitto(), NatsServer()
    document = subscription_policy(
        tmp_path_factory.mktemp("protocols"), topics={"orders": 3, "out": 3, "partitioned": 2}
    )
    scope = document.scope()
    scope["subscriptions"][0]["events"] = ["events/orders"]
    scope["subscriptions"][0]["sinks"] = [
        {"protocol": ["mqtt3", "mqtt5"], "to": f"mqtt://127.0.0.1:{mosquitto.port}", **LOCAL},
        {"protocol": "nats", "to": f"nats://127.0.0.1:{server.port}", **LOCAL},
        {"protocol": "kafka", "cluster": "main", "topics": "out"},
        {"protocol": "amqp", "local": "**"},
        {"protocol": "amqp", "to": f"amqp://127.0.0.1:{document.edge}", **LOCAL},
    ]
    gateway = start_module_gateway(document.text)
    kafka = EmbeddedKafka()
    kafka.found(gateway)
    client = ApiClient(api_port(document))
    yield World(gateway, client, EventWriter(gateway), document.edge, mosquitto, server, kafka.bootstrap)
    mosquitto.kill()
    server.kill()


@contextmanager
def subscribed(world: World, protocol: str, sink: str, **settings: Any) -> Iterator[dict[str, Any]]:
    """A subscription of events of a type that no other test writes."""
    kind = f"t.{protocol}.{len(json.dumps(settings))}.{id(settings)}"
    body = {"protocol": protocol, "sink": sink, "protocolsettings": settings, "types": [kind]}
    made = world.client.request("POST", body=body)
    assert made.status == 201, made.body
    try:
        yield {**made.json, "kind": kind}
    finally:
        world.client.request("DELETE", f"{PATH}/{made.json['id']}")


def delivered(world: World, subscription: dict[str, Any], count: int) -> None:
    """Wait until the status counts so many deliveries."""
    path = f"{PATH}/{subscription['id']}/status"
    wait_until(
        lambda: world.client.request("GET", path).json["events"]["delivered"] >= count, f"{count} delivered events"
    )


@pytest.mark.row("CE-3.2.2.2-1", "CE-3.2.2.2-2", "CE-3.2.2.2-3", "CE-3.2.2.2-5", "CE-B-4")
def test_mqtt_5_gets_a_message_with_the_attributes_as_user_properties(world: World) -> None:
    reader = MqttReader(world.mosquitto.port, "five/#")
    settings = {"topicname": "five/orders", "qos": 2, "expiry": 60, "userproperties": {"tenant": "7"}}
    with subscribed(world, "MQTT5", f"mqtt://127.0.0.1:{world.mosquitto.port}", **settings) as made:
        world.events.write("orders", "m5", made["kind"], data='{"a": 1}')
        message = reader.next()
        delivered(world, made, 1)
    reader.close()
    assert (message.topic, message.qos, json.loads(message.payload)) == ("five/orders", 2, {"a": 1})
    named = dict(message.properties.UserProperty)
    assert (named["id"], named["source"], named["specversion"], named["tenant"]) == ("m5", "/orders", "1.0", "7")
    assert message.properties.ContentType == "application/json"
    assert message.properties.MessageExpiryInterval <= 60


@pytest.mark.row("CE-3.2.2.2-7")
def test_mqtt_3_gets_the_event_as_json(world: World) -> None:
    reader = MqttReader(world.mosquitto.port, "three/#")
    with subscribed(world, "MQTT3", f"mqtt://127.0.0.1:{world.mosquitto.port}", topicname="three/orders") as made:
        assert made["protocolsettings"] == {"topicname": "three/orders", "qos": 1, "retain": False}
        world.events.write("orders", "m3", made["kind"], data='{"a": 1}')
        message = reader.next()
    reader.close()
    event = json.loads(message.payload)
    assert (event["id"], event["type"], event["data"]) == ("m3", made["kind"], {"a": 1})
    assert message.qos == 1


@pytest.mark.row("CE-3.2.2.5-1", "CE-B-5")
async def test_nats_gets_a_message_with_the_attributes_as_headers(world: World) -> None:
    reader = await nats.connect(f"nats://127.0.0.1:{world.nats.port}")
    subscription = await reader.subscribe("shop.orders")
    await reader.flush()

    def write() -> str:
        with subscribed(world, "NATS", f"nats://127.0.0.1:{world.nats.port}", subject="shop.orders") as made:
            world.events.write("orders", "n 1", made["kind"], data='{"a": 1}')
            delivered(world, made, 1)
        return str(made["kind"])

    kind = await asyncio.to_thread(write)
    message = await subscription.next_msg(PATIENCE)
    await reader.close()
    assert json.loads(message.data) == {"a": 1}
    assert message.headers is not None
    assert (message.headers["ce-id"], message.headers["ce-type"]) == ("n%201", kind)
    assert message.headers["ce-datacontenttype"] == "application/json"


def read(bootstrap: str, topic: str, kind: str) -> Message:
    """The first record of a type in any partition."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "log_level": 0})
    consumer.assign([TopicPartition(topic, each, 0) for each in range(3)])
    try:
        while True:
            for record in consumer.consume(1, PATIENCE):
                if dict(record.headers() or [])["ce_type"] == kind.encode():
                    return record
    finally:
        consumer.close()


@pytest.mark.row("CE-3.2.2.4-1", "CE-3.2.2.4-2", "CE-3.2.2.4-3", "CE-3.2.2.4-4", "CE-3.2.2.4-5", "CE-B-3")
def test_another_topic_gets_a_record(world: World) -> None:
    settings = {"topicname": "out", "partitionkeyextractor": "data:/customer", "clientid": "billing", "acks": "all"}
    with subscribed(world, "KAFKA", "kafka:///", **settings) as made:
        world.events.write("orders", "k1", made["kind"], data='{"customer": "c-7"}', key="order-1")
        record = read(world.bootstrap, "out", made["kind"])
    assert (record.key(), record.value()) == (b"c-7", b'{"customer": "c-7"}')
    assert dict(record.headers() or [])["ce_id"] == b"k1"
    with subscribed(world, "KAFKA", "kafka:///", topicname="out") as made:
        world.events.write("orders", "k2", made["kind"], key="order-1")
        assert read(world.bootstrap, "out", made["kind"]).key() == b"order-1", "the source's key is kept"


@pytest.mark.row("CE-3.2.2.3-1", "CE-3.2.2.3-2", "CE-3.2.2.3-4", "CE-3.2-1", "CE-B-2")
@pytest.mark.parametrize("mode", ["unsettled", "settled"])
@pytest.mark.parametrize("where", ["local", "container"])
def test_an_amqp_address_gets_a_message(world: World, mode: str, where: str) -> None:
    address = f"chat/{where}-{mode}"
    client = receive(Login(world.edge), address, 1).attached()
    sink = f"amqp:///{address}" if where == "local" else f"amqp://127.0.0.1:{world.edge}/{address}"
    with subscribed(world, "AMQP", sink, sendersettlementmode=mode) as made:
        world.events.write("orders", "a1", made["kind"], data="x", time="2026-11-23T10:00:00Z")
        client.join()
        delivered(world, made, 1)
    (got,) = client.received
    properties = got.message.properties
    assert (properties["cloudEvents:id"], properties["cloudEvents:type"]) == ("a1", made["kind"])
    assert type(properties["cloudEvents:time"]).__name__ == "timestamp", "typed, not text"


@pytest.mark.row("CE-3-5")
@pytest.mark.row("CE-3.2.2.3-3", "CE-3.2.2.3-5")
def test_a_stream_gets_events_at_the_partition_that_the_link_is_bound_to(world: World) -> None:
    sink = f"amqp://127.0.0.1:{world.edge}/events/partitioned"
    settings = {"linkname": "pushed", "linkproperties": {"event-streams-partition": "1"}}
    with subscribed(world, "AMQP", sink, **settings) as made:
        world.events.write("orders", "p1", made["kind"], key="any")
        delivered(world, made, 1)
    consumer = Consumer({"bootstrap.servers": world.bootstrap, "group.id": "x", "log_level": 0})
    consumer.assign([TopicPartition("partitioned", 1, 0)])
    (record,) = consumer.consume(1, PATIENCE)
    consumer.close()
    assert dict(record.headers() or [])["ce_id"] == b"p1"
    assert any(line.get("link") == "pushed" for line in world.gateway.log())


@pytest.mark.row("CE-3.2-2")
def test_links_of_clients_are_no_subscriptions_of_the_api(world: World) -> None:
    client = receive(Login(world.edge), "events/orders", 1).attached()
    listed = world.client.request("GET", f"{PATH}?empty=1").json
    client.stop()
    assert all(each["protocol"] != "AMQP" for each in listed)
    assert world.client.request("DELETE", f"{PATH}/link:receiver-0").status == 404
