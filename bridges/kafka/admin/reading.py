"""The settings of the clients that look up records for administration (`span_reader`, `records`)."""

from __future__ import annotations

from typing import Final

from bridges.kafka.common.librdkafka import ClientSettings

READING: Final[ClientSettings] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    "fetch.queue.backoff.ms": 1,  # by default, a client that has fetched enough pauses for a second
    "log_level": 0,
}
"""Reads committed records only, without committing; `group.id` has to be added, because the client requires one."""
