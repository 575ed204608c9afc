"""A container the gateway connects to: several URLs, jittered backoff, links attached again (DESIGN 3, `connect`)."""

from __future__ import annotations

import asyncio
import random
import ssl
from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING, Any, Final

from gateway.amqp.connection import Connection, Hub
from gateway.amqp.engine import Engine
from gateway.amqp.engine_config import EngineConfig
from gateway.amqp.sasl import SaslClient
from gateway.errors import NOT_ALLOWED, AmqpError
from gateway.listeners import PRODUCT
from gateway.nodes.announcing import Way, way
from gateway.nodes.remote import Relay, RemoteNode
from gateway.report import Report

if TYPE_CHECKING:
    from gateway.amqp.link import Link
    from policies.model_scope import Connector as ConnectorModel
    from policies.units import Endpoint

_HANDSHAKE: Final = 10.0


class Connector:
    """Keeps one connection to the container up and carries the relays that use it; the host of its connection."""

    def __init__(
        self,
        scope: str,
        model: ConnectorModel,
        *,
        container_id: str,
        hub: Hub,
        report: Report,
    ) -> None:
        self.name: Final = model.name
        self.scope: Final = scope
        self.model: Final = model
        self._password: str | None = None
        self._tls: ssl.SSLContext | None = None
        self._hub: Final = hub
        self._report: Final = report
        self._relays: set[Relay] = set()
        self._connection: Connection | None = None
        self._endpoint: Endpoint = model.to[0]
        self._ended = asyncio.Event()
        self._was_open = False
        self._down = False
        self._detail = "not connected yet"
        self._engine_config: Final = EngineConfig(
            container_id=model.container_id or container_id,
            desired=("ANONYMOUS-RELAY", "RESPONSE_ANNOTATIONS_V1_0"),
            offered=("RESPONSE_ANNOTATIONS_V1_0",),
            properties=PRODUCT,
            idle_timeout=model.idle_timeout,
            max_links=65_535,
        )

    def credentials(self, password: str | None, tls: ssl.SSLContext | None) -> None:
        """What the next connection uses; set before `run`, and again by every reload."""
        self._password, self._tls = password, tls

    async def run(self) -> None:
        """Connect, and connect again, until cancelled."""
        pause, low, high = (
            self.model.backoff.min.seconds,
            self.model.backoff.min.seconds,
            self.model.backoff.max.seconds,
        )
        for endpoint in cycle(self.model.to):
            self._was_open = False
            await self._session(endpoint)
            pause = low if self._was_open else min(pause * 2, high)
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311

    async def _session(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._down = False
        self._ended.clear()
        try:
            async with asyncio.timeout(_HANDSHAKE):
                await self._hub.loop.create_connection(
                    self._make,
                    endpoint.host,
                    endpoint.port,
                    ssl=self._tls if endpoint.tls else None,
                    server_hostname=endpoint.host if endpoint.tls else None,
                )
        except (OSError, TimeoutError) as error:
            self._failed(f"{endpoint}: {error or 'timed out'}")
            return
        await self._ended.wait()

    def _make(self) -> Connection:
        return Connection(
            self._hub, self, server=False, handshake=_HANDSHAKE, name=f"{self.scope}/{self.name}"
        )

    def _failed(self, detail: str) -> None:
        """Once an attempt, with the first reason: that the socket went too says nothing new."""
        if self._down:
            return
        self._down, self._detail = True, detail
        self._report.bump("connector_failures", self.name)
        self._report.log.warning(
            "connector down", connector=self.name, detail=detail, relays=len(self._relays)
        )

    def ready(self) -> tuple[bool, str]:
        """Whether the container is reached, and if not, why."""
        return self.engine is not None, f"connected to {self._endpoint}" if self.engine else self._detail

    def close(self, error: AmqpError | None = None) -> None:
        """Close the connection; relays lose their far half."""
        if self._connection is not None:
            self._connection.close(error)

    # -- what relays use

    def relay(self, address: str, make_crossing: Any) -> RemoteNode:
        """A node at `address` of the container."""
        return RemoteNode(self, address, make_crossing)

    @property
    def engine(self) -> Engine | None:
        connection = self._connection
        engine = connection.engine if connection is not None else None
        return engine if engine is not None and engine.opened and not engine.closed else None

    def join(self, relay: Relay) -> None:
        self._relays.add(relay)

    def leave(self, relay: Relay) -> None:
        self._relays.discard(relay)

    def later(self, seconds: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return self._hub.loop.call_later(seconds, call)

    def far_way(self) -> Way:
        return way(self.scope)

    # -- host of the connection

    def established(self, connection: Connection) -> None:
        connection.peer.scope = self.scope
        self._connection = connection

    def secure(self, connection: Connection) -> SaslClient:
        sasl = self.model.sasl
        return SaslClient(
            (sasl.mechanism,),
            sasl.user,
            self._password,
            self._endpoint.host,
            tls=connection.ssl_object is not None,
            allow_plain_without_tls=self.model.allow_plain_without_tls,
        )

    def engine_config(self, connection: Connection) -> EngineConfig:
        return self._engine_config

    def refused(self, connection: Connection, reason: str) -> None:
        self._failed(f"{self._endpoint}: {reason}")

    def unauthenticated(self, connection: Connection, security: SaslClient) -> None:
        self._failed(f"{self._endpoint}: authentication failed: {security.reason}")

    def opened(self, connection: Connection) -> None:
        engine = connection.engine
        assert engine is not None
        self._was_open = True
        self._report.bump("connector_opens", self.name)
        self._report.log.info(
            "connector open", connector=self.name, to=str(self._endpoint), container=engine.remote_container
        )
        for relay in list(self._relays):
            relay.connect(engine)

    def requested(self, connection: Connection, link: Link) -> None:
        """A container we connected to may attach to nothing of ours."""
        raise AmqpError(NOT_ALLOWED, "this gateway is a client here")

    def link_refused(self, link: Link, error: AmqpError) -> None:
        self._report.link_refused(link, error)

    def link_ended(self, link: Link, error: AmqpError | None) -> None:
        self._report.link_ended(link, error)

    def message_refused(self, link: Link, error: AmqpError) -> None:
        self._report.message_refused(link, error)

    def closed(self, connection: Connection, error: AmqpError | None) -> None:
        self._connection = None
        self._failed(f"{self._endpoint}: {error or 'connection lost'}")
        self._ended.set()
