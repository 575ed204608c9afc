"""Whether OpenTelemetry's library is there. It loads nothing, for `scopegate check` asks it of every policy."""

from __future__ import annotations

from importlib.util import find_spec


def missing() -> str | None:
    """What has to be installed for `tracing`; None: nothing."""
    try:
        found = find_spec("opentelemetry.exporter.otlp.proto.http") and find_spec("opentelemetry.sdk")
    except ModuleNotFoundError:
        found = None
    return None if found else "traces need OpenTelemetry's library: pip install 'scopegate[otel]'"
