"""Spans of sampled messages, for an OTLP collector (docs/decisions/0085-traces.md); inactive without `tracing`.

`context` reads the trace context of a message, `spans` buffers ended spans, `links` wraps the links whose messages are
traced, and `collector` exports the spans. Only `exporter` imports OpenTelemetry's library.
"""
