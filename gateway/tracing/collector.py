"""Exports ended spans to the collector from its own task and thread; counts and drops spans that cannot be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from gateway.observability.logs import get_logger
from gateway.tasks import off_loop

if TYPE_CHECKING:
    from gateway.observability.counters import Reading
    from gateway.tracing.spans import Span, Tracer

_BEAT: Final = 0.5
"""Export interval, in seconds."""
_LOT: Final = 512
"""Maximum number of spans in one request."""
log = get_logger("tracing")


class SpanExporter(Protocol):
    """The part of `exporter.OtlpExporter` that is used here."""

    def send(self, spans: Sequence[Span]) -> str | None: ...
    def close(self) -> None: ...


class SpanSender:
    """Sends the spans of one tracer."""

    def __init__(self, tracer: Tracer, make: Callable[[], SpanExporter]) -> None:
        """`make` creates the exporter; it is called in a thread, because it imports the library."""
        self._tracer: Final = tracer
        self._make: Final = make
        self._exporter: SpanExporter | None = None
        self._sent = self._unsent = 0
        self._troubled = False
        self._one: Final = asyncio.Lock()

    def counts(self) -> Iterator[Reading]:
        """The counts, for metrics."""
        yield "trace_spans", (("result", "sent"),), float(self._sent)
        yield "trace_spans", (("result", "overflowed"),), float(self._tracer.overflowed)
        yield "trace_spans", (("result", "unsent"),), float(self._unsent)

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            await asyncio.sleep(_BEAT)
            await self._send_ended()

    async def _send_ended(self) -> None:
        """Send all ended spans, batch by batch."""
        while self._tracer.ended:
            await self._turn()

    async def _turn(self) -> None:
        """Send one batch; the lock keeps `run` and `close` from sending at the same time."""
        async with self._one:
            if spans := self._tracer.take(_LOT):
                await self._send(spans)

    async def _send(self, spans: list[Span]) -> None:
        try:
            if self._exporter is None:
                self._exporter = await off_loop(self._make)
            problem = await off_loop(self._exporter.send, spans)
        except Exception as error:  # the library may raise anything; traffic and later spans must not be affected
            problem = f"{type(error).__name__}: {error}"
        except asyncio.CancelledError:
            self._unsent += len(spans)
            raise
        self._report(problem, len(spans))

    def _report(self, problem: str | None, spans: int) -> None:
        """Count; log the first failure and the first success after it."""
        if problem is None:
            self._sent += spans
            if self._troubled:
                log.info("spans sent again", lost=self._unsent)
        else:
            self._unsent += spans
            if not self._troubled:
                log.warning("spans not sent; traffic goes on", reason=problem)
        self._troubled = problem is not None

    async def close(self, limit: float) -> None:
        """Send the remaining spans, within `limit` seconds."""
        try:
            async with asyncio.timeout(limit):
                while self._tracer.ended or self._one.locked():
                    await self._turn()
        except TimeoutError:
            self._report("shutdown timed out", len(self._tracer.take(self._tracer.buffer)))
        if self._exporter is not None:
            self._exporter.close()
