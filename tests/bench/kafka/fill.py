"""Writes a topic for filters to scan: `python -m tests.bench.kafka.fill BOOTSTRAP TOPIC COUNT SIZE EVERY FORM`.

FORM is `plain`, `sealed` or a shape (`tests.bench.shapes`).
"""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

from confluent_kafka import Producer

from bridges.kafka.records.mapping import RecordWriter
from gateway.amqp.message.sections import APPLICATION_PROPERTIES, DATA, section, walk
from tests.bench.load import messages
from tests.bench.shapes import shapes


def fill(bootstrap: str, topic: str, count: int, size: int, every: int, form: str) -> None:
    """Records with six headers; the first, the last and one of `every` have the color red.

    `sealed` ones are as the gateway writes them, with `amqp.bare` behind the six; those of a shape as well, and their
    messages are otherwise those of its clients.
    """
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50, "queue.buffering.max.messages": 500_000})
    body = (messages.data_section(size) + messages.PLAIN_TAIL)[-size:]
    make = {"sealed": _sealed, "plain": _plain}.get(form) or partial(_shaped, shapes.messages(form, size))
    reds, others = _variants(make, body, "red"), _variants(make, body, "blue", "green", "grey")
    for number in range(count):
        red = number % every == 0 or number == count - 1
        key, value, headers = (reds if red else others)[number % _VARIANTS]
        while True:
            try:
                producer.produce(topic, value, key, headers=headers)
                break
            except BufferError:
                producer.poll(0.01)
    if left := producer.flush(120):
        raise SystemExit(f"{left} of {count} records were not written")


_VARIANTS = 1009
Record = tuple[bytes | None, bytes | None, Any]
"""Key, value and headers."""


def _variants(make: Callable[[bytes, dict[str, str]], Record], body: bytes, *colors: str) -> list[Record]:
    return [
        make(
            body,
            {
                "region": f"eu-{number % 7}",
                "size": str(17 + number % 3),
                "color": colors[number % len(colors)],
                "tenant": f"tenant-{number % 50}",
                "priority": str(7 + number % 100),
                "source": f"sensor-{number}",
            },
        )
        for number in range(_VARIANTS)
    ]


def _plain(body: bytes, properties: dict[str, str]) -> Record:
    return None, body, [(name, text.encode()) for name, text in properties.items()]


def _sealed(body: bytes, properties: dict[str, str]) -> Record:
    data = section(APPLICATION_PROPERTIES, properties) + section(DATA, body)
    key, value, headers = RecordWriter().record(data, walk(data))
    return key, value, headers


def _shaped(shaped: list[bytes], _: bytes, properties: dict[str, str]) -> Record:
    message = shaped[zlib.crc32(properties["source"].encode()) % len(shaped)]
    layout = walk(message)
    data = message[: layout.app] + section(APPLICATION_PROPERTIES, properties) + message[layout.body :]
    key, value, headers = RecordWriter().record(data, walk(data))
    return key, value, headers


if __name__ == "__main__":
    bootstrap, topic, count, size, every, form = sys.argv[1:]
    fill(bootstrap, topic, int(count), int(size), int(every), form)
