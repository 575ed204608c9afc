"""A schema registry: an HTTP server with the part of the documented REST API that reads schemas."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar


class RegistryServer:
    """Answers by path, without the query; counts the requests."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.answers: dict[str, Any] = {}
        self.asked: list[str] = []
        self.logins: list[str | None] = []

    def register(self, number: int, schema: object, kind: str = "AVRO", references: list[Any] | None = None) -> None:
        """A schema with this id."""
        self.answers[f"/schemas/ids/{number}"] = _entry(schema, kind, references)

    def version(self, subject: str, number: int, schema: object, kind: str = "AVRO") -> dict[str, Any]:
        """A version of a subject; returns a reference to it."""
        self.answers[f"/subjects/{subject}/versions/{number}"] = _entry(schema, kind, None)
        if kind == "PROTOBUF":  # of this address, the plain text
            self.answers[f"/subjects/{subject}/versions/{number}/schema"] = schema
        return {"name": subject, "subject": subject, "version": number}


def _entry(schema: object, kind: str, references: list[Any] | None) -> dict[str, Any]:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    entry: dict[str, Any] = {"schema": text, "references": references or []}
    return entry if kind == "AVRO" else {**entry, "schemaType": kind}


@contextmanager
def registry() -> Iterator[RegistryServer]:
    """A registry while this lasts."""

    class Handler(BaseHTTPRequestHandler):
        served: ClassVar[RegistryServer]

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            self.served.asked.append(self.path)
            self.served.logins.append(self.headers["Authorization"])
            found = self.served.answers.get(path, {"error_code": 40403, "message": "Schema not found"})
            data = found.encode() if isinstance(found, str) else json.dumps(found).encode()
            self.send_response(200 if path in self.served.answers else 404)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Handler.served = RegistryServer(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Handler.served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
