"""File descriptors: a reserve that AMQP connections leave, so that health checks and backends still get theirs."""

from __future__ import annotations

import resource
from typing import Final

_RESERVE: Final = 64
"""Descriptors kept for the HTTP port, Kafka, Redis, files and connectors; of a small limit a quarter."""


def spare(descriptor: int) -> bool:
    """Whether a socket just accepted leaves the reserve: the system gives it the lowest number that is free."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return limit == resource.RLIM_INFINITY or descriptor < limit - min(_RESERVE, limit // 4)
