"""Exports spans with OpenTelemetry's library: OTLP over HTTP (the extra `otel`). Blocks: call it in a thread.

The library reads `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_CERTIFICATE` and similar variables itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from gateway import __version__
from gateway.tracing.spans import Span

_KINDS: Final = {
    "request": SpanKind.INTERNAL,
    "response": SpanKind.INTERNAL,
    "produce": SpanKind.PRODUCER,
    "deliver": SpanKind.CONSUMER,
}
_FAILURES: Final = frozenset({"rejected", "none", "rolled-back"})
"""Outcomes that give a span the status error; released and modified messages may succeed later."""
_LIBRARY: Final = InstrumentationScope("scopegate", __version__)


_LONGEST: Final = 300
"""Maximum length of a reported problem, in characters."""


class _FirstProblem(logging.Handler):
    """Captures the library's first log line about a batch, which explains the failure, and keeps it out of the log."""

    text = ""

    def emit(self, record: logging.LogRecord) -> None:
        self.text = self.text or record.getMessage()[:_LONGEST]


class OtlpExporter:
    """Exports spans to one collector."""

    def __init__(self, endpoint: str, gateway: str, timeout: float) -> None:
        """`endpoint`: the URL for traces. `gateway`: the name of this gateway. `timeout`: seconds for one batch,
        including the library's own retries."""
        self._exporter: Final = OTLPSpanExporter(endpoint=endpoint, timeout=timeout)
        self._gateway: Final = gateway
        self._resources: Final[dict[str, Resource]] = {}
        self._problem: Final = _FirstProblem()
        logger = logging.getLogger("opentelemetry")
        logger.propagate = False
        logger.addHandler(self._problem)

    def send(self, spans: Sequence[Span]) -> str | None:
        """Send a batch. Returns None if the collector accepted it, otherwise the reason."""
        self._problem.text = ""
        result = self._exporter.export([self._readable(span) for span in spans])
        return None if result is SpanExportResult.SUCCESS else self._problem.text or "no answer"

    def close(self) -> None:
        """Cancel a pending retry; nothing is sent afterwards."""
        shutdown: Callable[[], None] = self._exporter.shutdown
        shutdown()
        logging.getLogger("opentelemetry").removeHandler(self._problem)

    def _resource(self, scope: str) -> Resource:
        """A resource for each scope, so that a collector can pass each scope's spans to its own readers."""
        if scope not in self._resources:
            about = {"service.name": "scopegate", "service.instance.id": self._gateway, "service.version": __version__}
            self._resources[scope] = Resource.create({**about, "scopegate.scope": scope})
        return self._resources[scope]

    def _readable(self, span: Span) -> ReadableSpan:
        place, begun = span.place, span.open
        trace, sampled = begun.context.trace, TraceFlags(TraceFlags.SAMPLED)
        return ReadableSpan(
            place.kind if place.rule is None else f"{place.kind} {place.rule}",
            SpanContext(trace, begun.id, is_remote=False, trace_flags=sampled),
            SpanContext(trace, begun.context.parent, is_remote=True, trace_flags=sampled),
            self._resource(place.scope),
            _attributes(span),
            kind=_KINDS[place.kind],
            status=Status(StatusCode.ERROR if span.outcome in _FAILURES else StatusCode.UNSET),
            start_time=begun.start,
            end_time=span.end,
            instrumentation_scope=_LIBRARY,
        )


def _attributes(span: Span) -> dict[str, str | int]:
    """Attributes named by OpenTelemetry's messaging conventions where these define a name."""
    place = span.place
    found: dict[str, str | int] = {
        "messaging.system": "amqp",
        "messaging.operation.name": place.kind,
        "messaging.destination.name": place.address,
        "messaging.message.envelope.size": span.open.size,
        "scopegate.outcome": span.outcome,
    }
    if place.rule is not None:
        found["messaging.destination.template"] = place.rule
    if span.condition is not None:
        found["error.type"] = span.condition
    return found
