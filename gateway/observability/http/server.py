"""The operator's HTTP port: `/metrics`, `/healthz`, `/readyz`, on the gateway's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from typing import Final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp
from uvicorn import Config, Server

from gateway.observability.http.bounded import bounded
from gateway.observability.http.framing import FramingGuard
from gateway.observability.http.groups import GroupAdminHandler, group_routes
from gateway.observability.http.shared_page import SharedPage, in_pieces
from gateway.observability.metrics import CONTENT_TYPE, Metrics
from gateway.observability.readiness import Readiness
from gateway.tasks import Supervisor, Work

GRACE: Final = 1
"""Seconds that requests in progress may take at shutdown."""


def make_app(metrics: Metrics, readiness: Readiness, groups: GroupAdminHandler | None = None) -> Starlette:
    """The application; requests run on the event loop and wait for nothing but the shared state."""
    page = SharedPage(metrics.pieces)

    async def show_metrics(_: Request) -> Response:
        return StreamingResponse(in_pieces(await page.get()), headers={"content-type": CONTENT_TYPE})

    async def healthz(_: Request) -> Response:
        # The answer itself shows that the event loop runs.
        return PlainTextResponse("ok\n")

    async def readyz(_: Request) -> Response:
        ready, report = readiness.report()
        return JSONResponse(report, status_code=200 if ready else 503)

    routes = [Route("/metrics", show_metrics), Route("/healthz", healthz), Route("/readyz", readyz)]
    return Starlette(routes=routes + (group_routes(groups) if groups is not None else []))


def keep_http(
    supervisor: Supervisor,
    host: str,
    port: int,
    app: ASGIApp,
    started: asyncio.Event,
    dropped: Callable[[str], None] = lambda reason: None,
) -> None:
    """`serve_http` as an essential task; raises OSError at once if the address is in use."""
    first = [serve_http(host, port, app, started, dropped)]
    supervisor.keep(lambda: first.pop() if first else serve_http(host, port, app, started, dropped), "http")


def serve_http(
    host: str, port: int, app: ASGIApp, started: asyncio.Event, dropped: Callable[[str], None] = lambda reason: None
) -> Work[None]:
    """A coroutine that sets `started`, serves until it is cancelled, and finishes the requests in progress.

    The port is bound now, so that the caller gets the `OSError` and not a task in the background. `dropped` is called
    with the reason when a connection is dropped (see `bounded`).
    """
    return _serve(_bind(host, port), app, started, dropped)


def _bind(host: str, port: int) -> socket.socket:
    family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    listening = socket.socket(family, kind, proto)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {error.strerror}") from None
    listening.setblocking(False)
    return listening


async def _serve(
    listening: socket.socket, app: ASGIApp, started: asyncio.Event, dropped: Callable[[str], None]
) -> None:
    config = Config(
        FramingGuard(app), log_config=None, access_log=False, lifespan="off", server_header=False, ws="none",
        timeout_graceful_shutdown=GRACE, http=bounded(dropped),
    )  # fmt: skip
    server = _QuietServer(config, started)
    try:
        await server.serve([listening])
    finally:
        listening.close()
    if server.cancelled:
        raise asyncio.CancelledError


class _QuietServer(Server):
    """uvicorn without signal handlers, which ends when it is cancelled: the gateway decides when the process ends."""

    def __init__(self, config: Config, started: asyncio.Event) -> None:
        super().__init__(config)
        self._announce = started
        self.cancelled = False

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._announce.set()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End at once where nobody is connected: uvicorn waits a tenth of a second for connections in any case."""
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)
            return
        for each in (*self.servers, *(sockets or ())):
            each.close()

    async def main_loop(self) -> None:
        try:
            await super().main_loop()
        except asyncio.CancelledError:
            # Raised again after `shutdown`, which uvicorn runs next and which closes open connections.
            self.cancelled = True
