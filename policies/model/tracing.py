"""Traces: spans of sampled messages, for an OTLP collector (docs/guide/operations.md)."""

from typing import Annotated

from pydantic import Field

from policies.values.base import Count, Strict
from policies.values.urls import HttpUrl


class TracingSection(Strict):
    """Spans of requests, responses, and events of topics that carry a sampled W3C trace context.

    Needs `pip install 'scopegate[otel]'`. Headers and certificates for the collector are in the library's environment
    variables, such as OTEL_EXPORTER_OTLP_HEADERS.
    """

    endpoint: HttpUrl = Field(
        description="URL to which an OTLP collector takes traces over HTTP, like http://127.0.0.1:4318/v1/traces"
    )
    sample: Annotated[float, Field(strict=True, ge=0, le=1)] = Field(
        default=1.0, description="fraction of traces that get spans; chosen by trace id, the same at all gateways"
    )
    buffer: Annotated[Count, Field(ge=1, le=100_000)] = Field(
        default=2048,
        description="maximum number of spans that are open, and of those that wait for the collector; further ones "
        "are counted and dropped",
    )
