"""Tracing for one process, enabled if its policy has `tracing` at startup."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING, Final

from gateway.tracing.collector import SpanSender
from gateway.tracing.spans import Tracer

if TYPE_CHECKING:
    from gateway.observability.metrics import Metrics
    from gateway.tasks import Supervisor
    from gateway.tracing.collector import SpanExporter
    from policies.model.tracing import TracingSection

_LAST: Final = 2.0
"""Seconds that shutdown waits for the last spans to be exported."""
_TIMEOUT: Final = 5.0
"""Timeout of one export request, in seconds."""


class Tracing:
    """Links report to `tracer`; it is None if the policy does not enable tracing."""

    def __init__(self, section: TracingSection | None, gateway: str) -> None:
        """`section`: the policy's settings; `gateway`: the name of this gateway."""
        self.tracer: Tracer | None = None
        self._sender: SpanSender | None = None
        if section is not None:
            self.tracer = Tracer(section.sample, section.buffer, time.time_ns)
            self._sender = SpanSender(self.tracer, partial(_exporter, section.endpoint, gateway))

    def start(self, metrics: Metrics, supervisor: Supervisor) -> None:
        """Start sending."""
        if self._sender is not None:
            metrics.count_source(self._sender.counts)
            supervisor.keep(self._sender.run, "traces")

    async def close(self) -> None:
        """Send the last spans, for at most two seconds."""
        if self._sender is not None:
            await self._sender.close(_LAST)


def _exporter(endpoint: str, gateway: str) -> SpanExporter:
    from gateway.tracing.exporter import OtlpExporter  # its library is slow to import

    return OtlpExporter(endpoint, gateway, _TIMEOUT)
