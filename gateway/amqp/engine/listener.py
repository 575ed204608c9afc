"""Who drives an engine, and what it hears of the connection and its links."""

from __future__ import annotations

from typing import Protocol, TypeVar

from gateway.amqp.engine.config import CallSoon
from gateway.amqp.link.link import Link
from gateway.errors import AmqpError

EngineT = TypeVar("EngineT", contravariant=True)


class LinkListener(Protocol):
    """Hears of the links of one connection."""

    def link_requested(self, link: Link) -> None:
        """The peer's attach has come: accept or refuse it, now or later; an AmqpError that is raised refuses it."""

    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...
    def link_counted(self, link: Link) -> None:
        """A link that has ended has counted something more."""

    def message_refused(self, link: Link, error: AmqpError) -> None: ...


class EngineListener(LinkListener, Protocol[EngineT]):
    """Drives an engine: hears of control events and of output that waits."""

    @property
    def soon(self) -> CallSoon | None:
        """Asked once: how the ends of many links are spread over turns of the loop; None: all end at once."""

    def engine_dirty(self) -> None:
        """Output waits: `take` it once in this turn of the loop."""

    def engine_opened(self, engine: EngineT) -> None: ...
    def engine_closed(self, engine: EngineT, error: AmqpError | None) -> None: ...
