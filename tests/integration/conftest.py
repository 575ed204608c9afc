"""Fixtures that several integration modules share."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from bridges.kafka.cluster import ClusterConfig
from tests.support.streams import Streams


@pytest.fixture
async def streams() -> AsyncIterator[Streams]:
    """A bridge on the embedded Kafka with the topics `solo` (1 partition) and `orders` (3)."""
    streams = Streams(ClusterConfig(topics={"solo": 1, "orders": 3}, refresh=0.2, retry=0.1, timeout=2))
    yield streams
    await streams.close()
