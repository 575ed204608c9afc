"""The settings of the clients that look up single records for administration (`offsets`, `records`)."""

from __future__ import annotations

from typing import Final

from bridges.kafka.common.librdkafka import ClientSettings

READING: Final[ClientSettings] = {
    "enable.auto.commit": False,
    "auto.offset.reset": "earliest",
    "isolation.level": "read_committed",
    "enable.partition.eof": True,
    "fetch.wait.max.ms": 10,
    "log_level": 0,
}
"""Reads committed records only, without committing; `group.id` has to be added, because the client requires one."""
