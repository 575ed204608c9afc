"""The Kafka baselines: confluent-kafka alone, with the settings of the gateway.

`python -m tests.bench.kafka.baseline produce|consume BOOTSTRAP TOPIC COUNT [SIZE [SHAPE]]` prints records per second
and the processor time for each, `latency BOOTSTRAP TOPIC COUNT RATE` the p50 and p99 from producer to consumer, all in
microseconds. With a SHAPE records are those that the gateway writes for these messages, and `consume` reads key, value
and headers of each, as an application does. Without one it only counts them.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from bridges.kafka.produce import producer as gateway_producer
from bridges.kafka.records.mapping import RecordWriter
from gateway.amqp.message.sections import walk
from tests.bench.load import messages
from tests.bench.shapes import shapes

GATEWAY_SETTINGS: dict[str, Any] = gateway_producer.SETTINGS


APPLICATION: Final = "application"
"""Records of an application of Kafka's, with a key and two headers, in place of a shape."""
Record = tuple[bytes | None, bytes | None, Any]
Cost = tuple[float, float]
"""Records a second, and microseconds of processor time for one."""


def records(size: int, shape: str) -> list[Record]:
    """What is written in turns: key, value and headers."""
    body = (messages.data_section(size) + messages.PLAIN_TAIL)[-size:]
    if shape == shapes.SYNTHETIC:
        return [(None, body, None)]
    if shape == APPLICATION:
        headers = [("region", b"eu-1"), ("type", b"created")]
        return [(b"customer-%d" % number, body, headers) for number in range(100)]
    writer = RecordWriter()
    return [writer.record(message, walk(message)) for message in shapes.messages(shape, size)]


def produce(bootstrap: str, topic: str, count: int, size: int = 100, shape: str = shapes.SYNTHETIC) -> Cost:
    """Records acknowledged per second, each with its own delivery report, as the gateway needs them."""
    written = records(size, shape)
    producer = Producer({**GATEWAY_SETTINGS, "bootstrap.servers": bootstrap})
    acknowledged = 0

    def report(error: KafkaError | None, _: Message) -> None:
        nonlocal acknowledged
        acknowledged += error is None

    producer.list_topics(topic, timeout=10)
    start, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        key, value, headers = written[number % len(written)]
        while True:
            try:
                producer.produce(topic, value, key, headers=headers, on_delivery=report)
                break
            except BufferError:
                producer.poll(0.01)
        if number % 500 == 0:
            producer.poll(0)
    producer.flush(60)
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    if acknowledged != count:
        raise SystemExit(f"{acknowledged} of {count} records acknowledged")
    return count / seconds, cpu * 1e6 / count


def consume(bootstrap: str, topic: str, count: int, _: int = 0, shape: str | None = None) -> Cost:
    """Records per second with `consume(500)`, from the first batch to the last; those of a shape are read as well."""
    settings = {"group.id": "bench", "enable.auto.commit": False, "fetch.queue.backoff.ms": 1}
    consumer = Consumer({**settings, "bootstrap.servers": bootstrap})
    consumer.assign([TopicPartition(topic, 0, 0)])
    first = len(consumer.consume(500, 10.0))
    read, start, quiet, cpu = first, time.perf_counter(), time.perf_counter() + 30, time.process_time()
    while read < count and time.perf_counter() < quiet:
        batch = consumer.consume(min(500, count - read), 1.0)
        read += len(batch)
        if shape is not None:
            for each in batch:
                each.key(), each.value(), each.headers()
    seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
    consumer.close()
    if read < count:
        raise SystemExit(f"{read} of {count} records read")
    return (read - first) / seconds, cpu * 1e6 / (read - first)


def latency(bootstrap: str, topic: str, count: int, rate: int) -> tuple[float, float]:
    """p50 and p99 in microseconds at `rate` records a second: from `produce` to the message in the consumer's hands."""
    producer = Producer({**GATEWAY_SETTINGS, "bootstrap.servers": bootstrap})
    producer.list_topics(topic, timeout=10)
    seen: list[int] = []
    reader = threading.Thread(target=_watch, args=(bootstrap, topic, count, seen), daemon=True)
    reader.start()
    start, sent = time.perf_counter(), 0
    while sent < count:
        due = min(count, int((time.perf_counter() - start) * rate))
        for _ in range(due - sent):
            producer.produce(topic, messages.STAMP.pack(time.perf_counter_ns(), 1).rjust(100))
        sent = due
        producer.poll(0.001)
    producer.flush(10)
    reader.join(30)
    if len(seen) < count:
        raise SystemExit(f"{len(seen)} of {count} records read")
    ordered = sorted(seen[count // 5 :])  # what came before the consumer was there is no latency
    return ordered[len(ordered) // 2] / 1000, ordered[len(ordered) * 99 // 100] / 1000


def _watch(bootstrap: str, topic: str, count: int, seen: list[int]) -> None:
    consumer = Consumer({"group.id": "bench", "enable.auto.commit": False, "bootstrap.servers": bootstrap})
    consumer.assign([TopicPartition(topic, 0, 0)])
    while len(seen) < count and (message := consumer.poll(10.0)) is not None:
        if message.error() is None:
            value = message.value()
            assert value is not None
            seen.append(time.perf_counter_ns() - messages.STAMP.unpack(value[-messages.STAMP.size :])[0])
    consumer.close()


if __name__ == "__main__":
    job = {"produce": produce, "consume": consume, "latency": latency}[sys.argv[1]]
    numbers = [int(text) if text.isdigit() else text for text in sys.argv[4:]]
    print(*job(sys.argv[2], sys.argv[3], *numbers))  # type: ignore[operator]
