"""A collector that takes traces by OTLP over HTTP, as OpenTelemetry's own schema of messages decodes them."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from tests.support.gateway.process import wait_until


class SeenSpan(NamedTuple):
    """A span as it came, with the attributes of its resource; ids in hexadecimal."""

    name: str
    trace: str
    parent: str
    id: str
    seconds: float
    failed: bool
    attributes: dict[str, Any]
    resource: dict[str, Any]


class OtlpCollector:
    """`status` is what it answers; port 0 takes a free one."""

    def __init__(self, port: int = 0) -> None:
        self.status = 200
        self.spans: list[SeenSpan] = []
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                collector.take(self.path, headers, self.rfile.read(int(headers["content-length"])))
                self.send_response(collector.status)
                self.send_header("content-type", "application/x-protobuf")
                self.end_headers()
                self.wfile.write(ExportTraceServiceResponse().SerializeToString())

            def log_message(self, format: str, *args: Any) -> None:
                """Say nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    @property
    def url(self) -> str:
        """For `gateway.tracing.endpoint`."""
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/traces"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def take(self, path: str, headers: dict[str, str], body: bytes) -> None:
        """A request."""
        assert path == "/v1/traces"
        self.headers.append(headers)
        if headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        if self.status == 200:
            self.bodies.append(body)
            self.spans += _spans(ExportTraceServiceRequest.FromString(body))

    def wait(self, count: int) -> list[SeenSpan]:
        """All spans so far, once there are `count`."""
        wait_until(lambda: len(self.spans) >= count, f"{count} spans")
        return self.spans


def _spans(request: ExportTraceServiceRequest) -> list[SeenSpan]:
    return [
        SeenSpan(
            span.name,
            span.trace_id.hex(),
            span.parent_span_id.hex(),
            span.span_id.hex(),
            (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
            span.status.code == span.status.STATUS_CODE_ERROR,
            _values(span.attributes),
            _values(group.resource.attributes),
        )
        for group in request.resource_spans
        for scope in group.scope_spans
        for span in scope.spans
    ]


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}
