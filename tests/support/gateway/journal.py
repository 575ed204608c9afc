"""The journal as a consumer of its topic reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, TopicPartition

from tests.support.gateway.process import PATIENCE, wait_until

Rows = list[dict[str, Any]]
SUMS = ("attached", "messages", "bytes")


class JournalReader:
    """Reads a topic from its beginning; `rows` are all rows so far."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        settings = {"bootstrap.servers": bootstrap, "group.id": "journal-reader", "log_level": 0}
        self._consumer = Consumer({**settings, "enable.auto.commit": False, "fetch.queue.backoff.ms": 1})
        self._place = TopicPartition(topic, 0, 0)
        self._consumer.assign([self._place])
        self.rows: Rows = []
        self.text = ""

    def read(self) -> Rows:
        """Take what has come; return all rows."""
        for record in self._consumer.consume(500, 0.2):
            assert record.error() is None, record.error()
            self.text += record.value().decode()
            self.rows.append(json.loads(record.value()))
        return self.rows

    def wait(self, accept: Callable[[Rows], object], what: str, seconds: float = PATIENCE) -> Rows:
        """Wait until the rows are acceptable; return them."""
        wait_until(lambda: accept(self.read()), what, seconds)
        return self.rows

    def end(self) -> int:
        """How many rows have been written by now."""
        return int(self._consumer.get_watermark_offsets(self._place, timeout=PATIENCE)[1])

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()


def those(rows: Rows, **fields: Any) -> Rows:
    """The rows with these fields; None: the row has no such field."""
    return [row for row in rows if all(row.get(name) == value for name, value in fields.items())]


def total(rows: Rows, name: str, **fields: Any) -> int:
    """A count summed over the rows with these fields."""
    return sum(row.get(name, 0) for row in those(rows, **fields))


def table(rows: Rows, name: str, **fields: Any) -> dict[str, int]:
    """A table of counts, such as `outcomes`, summed over the rows with these fields."""
    found: dict[str, int] = {}
    for row in those(rows, **fields):
        for key, count in row.get(name, {}).items():
            found[key] = found.get(key, 0) + count
    return found
