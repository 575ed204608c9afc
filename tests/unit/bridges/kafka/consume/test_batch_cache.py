"""What the cache of event logs keeps: the latest chunks, by size."""

from __future__ import annotations

from typing import Any

from bridges.kafka.consume.batches import BatchCache, FetchedBatch, PartitionBuffer


class Record:
    """What the cache asks of a Kafka client's message."""

    def __len__(self) -> int:
        return 3


def test_the_cache_keeps_the_latest_and_forgets_the_oldest() -> None:
    cache = BatchCache(4000)
    log = PartitionBuffer("orders", 0, cache, lambda log, position: None)
    for start in range(0, 30, 3):
        records: list[Any] = [Record()]
        log.add(batch := FetchedBatch(log, start, start + 3, records))
        cache.use(batch)
    assert cache.size <= 4000
    assert log.find(28) is not None
    assert log.find(0) is None
