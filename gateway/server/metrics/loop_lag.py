"""How late the event loop runs a timer: whatever keeps it busy delays every connection by as much."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Final

from gateway.amqp.proton._batch import SECOND_BOUNDS
from gateway.observability.histogram import Histogram, HistogramSample

_INTERVAL: Final = 0.25


class LoopLag:
    """Measures four times a second."""

    def __init__(self) -> None:
        self._histogram: Final = Histogram(SECOND_BOUNDS)

    async def run(self) -> None:
        """Measure until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _INTERVAL
            await asyncio.sleep(_INTERVAL)
            self._histogram.observe(max(0.0, loop.time() - due))

    def samples(self) -> Iterator[HistogramSample]:
        """The histogram, for metrics."""
        yield HistogramSample("loop_lag_seconds", (), self._histogram)
