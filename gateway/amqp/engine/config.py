"""What an engine is told, who is at its other end, and who drives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Protocol

from gateway.errors import AmqpError
from gateway.principal import Container, Requester, User

if TYPE_CHECKING:
    from gateway.amqp.engine.engine import Engine
    from gateway.amqp.link.link import Link


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """What our open says and what we bound; sizes in bytes, times in milliseconds."""

    container_id: str
    hostname: str | None = None
    offered: tuple[str, ...] = ()
    desired: tuple[str, ...] = ()
    properties: Mapping[str, object] = field(default_factory=dict)
    max_frame_size: int = 128 * 1024
    channel_max: int = 255
    idle_timeout: int = 60_000
    max_links: int = 1000
    max_message_size: int = 128 * 1024 * 1024
    memory: int | None = None
    user_memory: int | None = None
    """Bytes that may be held for the connection, and for all of its user; None: a part of the process's budget."""
    shared: bool = False
    """The peer is a container that many use through us: it is not slowed down for one of them."""


@dataclass(slots=True)
class PeerInfo:
    """Who is at the other end, as far as nodes and logs need it."""

    scope: str = ""
    user: str = "anonymous"
    connection: str = ""
    address: str = ""
    mechanism: str = ""
    """The SASL mechanism of the login."""
    tls: bool = False
    anchor: bytes = b""
    """The authority that vouched for the peer's certificate, where it logged in with one."""
    connector: str = ""
    """The connector whose container it is; empty: a client of a listener."""

    @property
    def requester(self) -> Requester:
        """Whose messages come from it."""
        return _requester(self.scope, self.user, self.connector)


@lru_cache(maxsize=65_536)
def _requester(scope: str, user: str, connector: str) -> Requester:
    """One object for all links of a user: nodes compare by identity first."""
    return Container(scope, connector) if connector else User(scope, user)


class EngineListener(Protocol):
    """Who drives the engine: hears of control events and of output that waits."""

    def engine_dirty(self) -> None: ...
    def engine_opened(self, engine: Engine) -> None: ...
    def engine_closed(self, engine: Engine, error: AmqpError | None) -> None: ...
    def link_requested(self, link: Link) -> None: ...
    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...
    def message_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_counted(self, link: Link) -> None: ...
