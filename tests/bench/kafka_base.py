"""The Kafka baselines: what confluent-kafka does alone, with the settings the gateway uses.

`python -m tests.bench.kafka_base produce|consume BOOTSTRAP TOPIC COUNT` prints records per second.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bridges.kafka import producer as gateway_producer
from tests.bench import messages

SIZE = 100
BODY = (messages.data_section(SIZE) + messages.PLAIN_TAIL)[-SIZE:]
GATEWAY_SETTINGS: dict[str, Any] = gateway_producer._SETTINGS


def produce(bootstrap: str, topic: str, count: int) -> float:
    """Records acknowledged per second, each with its own delivery report, as the gateway needs them."""
    producer = Producer({**GATEWAY_SETTINGS, "bootstrap.servers": bootstrap})
    acknowledged = 0

    def report(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer.list_topics(topic, timeout=10)
    start = time.perf_counter()
    for number in range(count):
        while True:
            try:
                producer.produce(topic, BODY, on_delivery=report)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 500 == 0:
            producer.poll(0)
    producer.flush(60)
    seconds = time.perf_counter() - start
    if acknowledged != count:
        raise SystemExit(f"{acknowledged} of {count} records acknowledged")
    return count / seconds


def consume(bootstrap: str, topic: str, count: int) -> float:
    """Records per second with `consume(500)`, from the first batch to the last."""
    settings = {"group.id": "bench", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1}
    consumer = Consumer({**settings, "bootstrap.servers": bootstrap})
    consumer.assign([TopicPartition(topic, 0, 0)])
    first = len(consumer.consume(500, 10.0))
    read, start, quiet = first, time.perf_counter(), time.perf_counter() + 30
    while read < count and time.perf_counter() < quiet:
        read += len(consumer.consume(min(500, count - read), 1.0))
    seconds = time.perf_counter() - start
    consumer.close()
    if read < count:
        raise SystemExit(f"{read} of {count} records read")
    return (read - first) / seconds


if __name__ == "__main__":
    job = {"produce": produce, "consume": consume}[sys.argv[1]]
    print(job(sys.argv[2], sys.argv[3], int(sys.argv[4])))
