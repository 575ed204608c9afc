"""Spans of sampled messages, for an OTLP collector (docs/decisions/0085-traces.md): none of it runs without `tracing`.

`context` reads what a message carries, `spans` keeps what has ended, `links` stands around the links whose messages
are traced, and `collector` sends; only `exporter` knows OpenTelemetry's library.
"""
