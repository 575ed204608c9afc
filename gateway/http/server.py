"""The operator's HTTP port: `/metrics`, `/healthz`, `/readyz`, on the gateway's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn import Config, Server

from gateway.http.metrics import CONTENT_TYPE, Metrics
from gateway.http.readiness import Readiness

GRACE: Final = 1
"""Seconds that requests in progress get at the end."""


def build_app(metrics: Metrics, readiness: Readiness) -> Starlette:
    """The application; requests are answered on the loop and never wait for anything."""

    async def show_metrics(_: Request) -> Response:
        return Response(metrics.exposition(), headers={"content-type": CONTENT_TYPE})

    async def healthz(_: Request) -> Response:
        # Being answered at all says that the loop turns.
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        ready, report = readiness.report()
        return JSONResponse(report, status_code=200 if ready else 503)

    routes = [Route("/metrics", show_metrics), Route("/healthz", healthz), Route("/readyz", readyz)]
    return Starlette(routes=routes)


def bind_http(host: str, port: int) -> socket.socket:
    """The listening socket; raises `OSError` before anything has started."""
    family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, proto)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError:
        listening.close()
        raise
    listening.setblocking(False)
    return listening


async def serve_http(listening: socket.socket, app: ASGIApp, *, started: Callable[[], None] = lambda: None) -> None:
    """Serve on a socket of `bind_http` until cancelled; then finish what is being answered and close it.

    `started` is called once requests are answered.
    """
    config = Config(
        app, log_config=None, access_log=False, lifespan="off", server_header=False, ws="none",
        timeout_graceful_shutdown=GRACE, limit_concurrency=256,
    )  # fmt: skip
    server = _QuietServer(config, started)
    try:
        await server.serve([listening])
    finally:
        listening.close()
    if server.cancelled:
        raise asyncio.CancelledError


class _QuietServer(Server):
    """uvicorn without signal handlers, ended by cancelling: the gateway decides when the process ends."""

    def __init__(self, config: Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_started = started
        self.cancelled = False

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_started()

    async def main_loop(self) -> None:
        try:
            await super().main_loop()
        except asyncio.CancelledError:
            # Held back until `shutdown`, which uvicorn runs next, has closed what is open.
            self.cancelled = True
