"""The protocols of an engine's owner: events of the connection and its links."""

from __future__ import annotations

from typing import Protocol, TypeVar

from gateway.amqp.link.config import CallSoon
from gateway.amqp.link.link import Link
from gateway.errors import AmqpError

EngineT = TypeVar("EngineT", contravariant=True)


class LinkListener(Protocol):
    """Gets the events of the links of one connection."""

    def link_requested(self, link: Link) -> None:
        """The peer has sent an attach: accept or refuse it, now or later; a raised AmqpError refuses it."""

    def link_refused(self, link: Link, error: AmqpError) -> None: ...
    def link_ended(self, link: Link, error: AmqpError | None) -> None: ...
    def link_counted(self, link: Link) -> None:
        """A link has counted something after its end."""

    def message_refused(self, link: Link, error: AmqpError) -> None: ...


class EngineListener(LinkListener, Protocol[EngineT]):
    """The owner of an engine: gets control events, and a call when there is output."""

    @property
    def soon(self) -> CallSoon | None:
        """Schedules the ends of many links over turns of the loop; None: all end at once."""

    def engine_dirty(self) -> None:
        """There is output: `take` it once in this turn of the loop."""

    def engine_opened(self, engine: EngineT) -> None: ...
    def engine_closed(self, engine: EngineT, error: AmqpError | None) -> None: ...
