"""What a competent Python service does to forward events: `consume(500)`, the protocol's own client, all acknowledged.

`python -m tests.bench.load.forwarder PROTOCOL BOOTSTRAP TOPIC COUNT TARGET PORT` forwards COUNT events in binary
mode to a topic, subject or queue TARGET at PORT of this machine (Kafka: at BOOTSTRAP), at most 256 unacknowledged at a
time, and prints the seconds from the first to the last acknowledgement and its processor time.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Iterator

import nats
import paho.mqtt.client as mqtt
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from proton import Message as AmqpMessage
from proton.handlers import MessagingHandler
from proton.reactor import Container

WINDOW = 256


def consumed(bootstrap: str, topic: str, count: int) -> Iterator[list[Message]]:
    """Batches, and a commit after each."""
    settings = {"group.id": f"stock-{topic}", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1}
    consumer = Consumer({**settings, "bootstrap.servers": bootstrap})
    consumer.assign([TopicPartition(topic, 0, 0)])
    left = count
    while left > 0:
        batch = consumer.consume(min(500, left), 1.0)
        if batch:
            yield batch
            consumer.commit(asynchronous=False)
        left -= len(batch)
    consumer.close()


def attributes(message: Message, prefix: str) -> list[tuple[str, str]]:
    """The attributes of an event, by names with this prefix."""
    named = ((name, (content or b"").decode()) for name, content in message.headers() or [])
    return [(prefix + name.removeprefix("ce_"), value) for name, value in named if name.startswith("ce_")]


def kafka(batches: Iterator[list[Message]], bootstrap: str, target: str, port: int) -> None:
    """To another topic."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    for batch in batches:
        for message in batch:
            producer.produce(target, message.value(), message.key(), headers=message.headers())
            producer.poll(0)
        producer.flush()


def mqtt5(batches: Iterator[list[Message]], bootstrap: str, target: str, port: int) -> None:
    """QoS 1, with user properties."""
    client, room = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv5), threading.Semaphore(WINDOW)
    client.max_inflight_messages_set(WINDOW)
    client.on_publish = lambda *_: room.release()
    client.connect("127.0.0.1", port)
    client.loop_start()
    for batch in batches:
        for message in batch:
            room.acquire()
            properties = Properties(PacketTypes.PUBLISH)
            properties.UserProperty = attributes(message, "")
            client.publish(target, message.value(), 1, properties=properties)
        for _ in range(WINDOW):
            room.acquire()
        room.release(WINDOW)
    client.disconnect()


def to_nats(batches: Iterator[list[Message]], bootstrap: str, target: str, port: int) -> None:
    """Core NATS, with a flush after each batch."""

    async def run() -> None:
        client = await nats.connect(f"nats://127.0.0.1:{port}")
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            for message in batch:
                await client.publish(target, message.value() or b"", headers=dict(attributes(message, "ce-")))
            await client.flush()
        await client.close()

    asyncio.run(run())


class _Sender(MessagingHandler):
    """Sends as credit allows; ends when all are accepted."""

    def __init__(self, batches: Iterator[list[Message]], target: str, port: int) -> None:
        super().__init__()
        self._batches, self._target, self._port = batches, target, port
        self._waiting: list[Message] = []
        self._open = 0

    def on_start(self, event: object) -> None:
        """Connect."""
        container: Container = event.container  # type: ignore[attr-defined]
        url = f"amqp://admin:admin@127.0.0.1:{self._port}"
        self._connection = container.connect(url, allowed_mechs="PLAIN", allow_insecure_mechs=True)
        self._sender = container.create_sender(self._connection, self._target)

    def on_sendable(self, event: object) -> None:
        """Send what credit allows."""
        while self._sender.credit and self._open < WINDOW:
            self._waiting = self._waiting or list(next(self._batches, []))
            if not self._waiting:
                break
            message = self._waiting.pop(0)
            properties = dict(attributes(message, "cloudEvents:"))
            self._sender.send(AmqpMessage(message.value(), properties=properties, durable=True))
            self._open += 1

    def on_accepted(self, event: object) -> None:
        """Go on, or end."""
        self._open -= 1
        self.on_sendable(event)
        if not self._open and not self._waiting:
            self._connection.close()


def amqp(batches: Iterator[list[Message]], bootstrap: str, target: str, port: int) -> None:
    """To a broker, unsettled."""
    Container(_Sender(batches, target, port)).run()


FORWARD: dict[str, Callable[[Iterator[list[Message]], str, str, int], None]] = {
    "KAFKA": kafka, "MQTT5": mqtt5, "NATS": to_nats, "AMQP": amqp,
}  # fmt: skip


def main(protocol: str, bootstrap: str, topic: str, count: str, target: str, port: str) -> None:
    """Forward them, and say how long it took from the first batch on."""
    batches = consumed(bootstrap, topic, int(count))
    first = next(batches)
    begun, cpu = time.perf_counter(), time.process_time()

    def all_of_them() -> Iterator[list[Message]]:
        yield first
        yield from batches

    FORWARD[protocol](all_of_them(), bootstrap, target, int(port))
    print(time.perf_counter() - begun, time.process_time() - cpu)


if __name__ == "__main__":
    main(*sys.argv[1:7])
