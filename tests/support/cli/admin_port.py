"""A gateway whose admin API listens at a port, beside its socket."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tests.support.cli.admin import Admin
from tests.support.gateway.document import Document
from tests.support.gateway.gateway import Gateways
from tests.support.gateway.process import PATIENCE, answers, free_port, wait_until
from tests.support.servers.certs import Authority, Pair

OPS, DASH = "ops-3f9a-27ab-c0de-11zz", "dash-9d81-55fe-0aaf-77xy"
"""Tokens: the first may operate, the second view."""


class AdminPort(Admin):
    """The gateway and its port; `base` is its URL."""

    def __init__(
        self,
        start: Gateways,
        document: Document,
        *,
        authority: Authority | None = None,
        env: Mapping[str, str] | None = None,
        ready: bool = True,
        **admin: Any,
    ) -> None:
        """With an authority, the port has TLS and takes client certificates of it; `admin` are further keys."""
        self.port = free_port()
        self.authority = authority
        self.base = f"{'http' if authority is None else 'https'}://127.0.0.1:{self.port}"
        tokens = {"ops": {"env": "TEST_OPS", "role": "operate"}, "dash": {"env": "TEST_DASH"}}
        document.data["gateway"]["admin"] = {"tokens": tokens, **admin}
        if authority is not None:
            server = authority.server(file=f"admin-{self.port}")
            paths = {"cert": str(server.cert), "key": str(server.key), "client_ca": str(authority.ca)}
            document.data["gateway"]["admin"]["tls"] = paths
        super().__init__(start, document, env={"TEST_OPS": OPS, "TEST_DASH": DASH, **(env or {})}, ready=ready)
        wait_until(lambda: answers(self.port), "the admin port")

    def places(self) -> list[str]:
        """The socket and the port."""
        return [*super().places(), f"127.0.0.1:{self.port}"]

    @contextmanager
    def connection(self, certificate: Pair | None = None) -> Iterator[http.client.HTTPConnection]:
        """A connection to the port, perhaps with a client certificate."""
        if self.authority is None:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        else:
            context = ssl.create_default_context(cafile=self.authority.ca)
            if certificate is not None:
                context.load_cert_chain(certificate.cert, certificate.key)
            connection = http.client.HTTPSConnection("127.0.0.1", self.port, timeout=PATIENCE, context=context)
        try:
            yield connection
        finally:
            connection.close()

    def at_port(
        self, method: str, path: str, *, token: str | None = None, certificate: Pair | None = None,
        headers: Mapping[str, str] | None = None, body: object = None,
    ) -> tuple[int, dict[str, Any], Mapping[str, str]]:  # fmt: skip
        """Send one request to the port: status, document and headers of the answer."""
        about = dict(headers or {}) | ({"Authorization": f"Bearer {token}"} if token else {})
        if body is not None:
            about = {"Content-Type": "application/json", **about}
        with self.connection(certificate) as connection:
            text = None if body is None else json.dumps(body)
            connection.request(method, f"/api/v1{path}", body=text, headers=about)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read()), dict(answer.headers)

    def log_in(self, token: str = OPS) -> str:
        """Begin a session as a browser does; returns the cookie as the browser sends it back."""
        status, found, headers = self.at_port("POST", "/session", body={"token": token})
        assert status == 200, found
        return headers["set-cookie"].partition(";")[0]
