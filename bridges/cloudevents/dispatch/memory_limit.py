"""The memory of the events that a manager's queues hold: counted, and divided when there is too much."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bridges.cloudevents.dispatch.worker import DeliveryWorker


class MemoryLimit:
    """Limits the events in memory of all subscriptions together; sizes in bytes."""

    def __init__(self, workers: Mapping[str, DeliveryWorker]) -> None:
        self._workers: Final = workers
        self._buffering: Final[dict[DeliveryWorker, None]] = {}
        """Those whose queues had events in memory after their last step."""
        self.last_count = 0
        """Bytes in memory at the last `enforce`."""
        self._is_low = False

    def note(self, worker: DeliveryWorker) -> None:
        """Its queue may hold more or fewer events now."""
        if worker.queue.buffered_bytes:
            self._buffering[worker] = None
        else:
            self.forget(worker)

    def forget(self, worker: DeliveryWorker) -> None:
        """Its delivery has ended."""
        self._buffering.pop(worker, None)

    def enforce(self, limit: int) -> None:
        """Above `limit`, divide it among the queues that hold events."""
        buffering = list(self._buffering)
        self.last_count = sum(worker.queue.buffered_bytes for worker in buffering)
        if self.last_count > limit:
            self._is_low = True
            for worker in self._workers.values():
                worker.queue.limit_bytes(limit // (2 * len(buffering)))
        elif self._is_low and self.last_count < limit // 4:
            self._is_low = False
            for worker in self._workers.values():
                worker.queue.limit_bytes(limit)
                worker.wake()
