"""File descriptors: AMQP connections leave a reserve for health checks and backends."""

from __future__ import annotations

import resource
from typing import Final

_RESERVE: Final = 64
"""Descriptors reserved for the HTTP port, Kafka, Redis, files and connectors; at most a quarter of the limit."""


def leaves_reserve(descriptor: int) -> bool:
    """Whether an accepted socket is outside the reserve: the system assigns the lowest free number."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit == resource.RLIM_INFINITY or descriptor < limit - min(_RESERVE, limit // 4)
