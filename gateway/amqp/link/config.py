"""The configuration of an engine, and its peer."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, TypeAlias

from gateway.amqp.link.outcomes import Outcome
from gateway.amqp.link.transactions import Transactions
from gateway.amqp.message.response_support import CAPABILITY
from gateway.principal import Container, Requester, User

CallSoon: TypeAlias = Callable[[Callable[[], None]], object]
"""Schedules a call for the next turn of the loop."""


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """The contents of our open, and limits; sizes in bytes, times in milliseconds."""

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
    """The peer is a container that many clients use through us: it is not slowed down for one of them."""
    strict_annotations: bool = False
    """A message with an annotation that is not understood ends its link (AMQP 1.0 part 3, 3.2.10)."""
    annotations: Literal["offered", "trust", "never"] = "never"
    """When announcements of the peer's targets count: if it offered response annotations, always, or never (RA 2.1)."""

    full_arity: bool = False
    """Every performative has all of its fields, nulls at its end too (`gateway.amqp.transport.full_arity`)."""
    message_formats: frozenset[int] = frozenset()
    """Message-formats other than 0 that are passed on to handlers, which find them in `Link.message_format`."""
    refusals_with_terminus: frozenset[str] | None = None
    """Conditions with which an attach that refuses a link repeats the peer's own terminus; None: all of them."""
    told_outcome: Callable[[Outcome], Outcome] | None = None
    """What a peer that does not know every outcome is told instead of one that is not `accepted`."""

    def annotates(self, offered: Collection[str]) -> bool:
        """Whether a peer whose open offered these capabilities may get annotated requests (RA-2.1-4)."""
        return self.annotations == "trust" or (self.annotations == "offered" and CAPABILITY in offered)

    @property
    def all_desired(self) -> tuple[str, ...]:
        """The capabilities that our open desires: response annotations, too, if we may send them (RA-2.1-3)."""
        return self.desired if self.annotations == "never" else (*self.desired, CAPABILITY)


@dataclass(slots=True)
class PeerInfo:
    """The peer, as nodes and logs need it."""

    scope: str = ""
    user: str = "anonymous"
    connection: str = ""
    address: str = ""
    mechanism: str = ""
    """The SASL mechanism of the login."""
    tls: bool = False
    anchor: bytes = b""
    """The authority that issued the peer's certificate, if it logged in with one."""
    transactions: Transactions | None = None
    """Its transactions, once it has attached to a coordinator."""
    connector: str = ""
    """The connector whose container it is; empty: a client of a listener."""
    max_frame_size: int = 0
    """That of its open; 0: no limit."""

    @property
    def requester(self) -> Requester:
        """The requester of its messages."""
        return _requester(self.scope, self.user, self.connector)


@lru_cache(maxsize=65_536)
def _requester(scope: str, user: str, connector: str) -> Requester:
    """One object for all links of a user, because nodes compare by identity first."""
    return Container(scope, connector) if connector else User(scope, user)
