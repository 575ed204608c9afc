"""The dialect of a listener whose clients do not speak AMQP as the gateway's nodes do: an adapter at the edge."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.amqp.link.config import EngineConfig
    from gateway.amqp.link.link import Link
    from policies.model.scopes.event_hubs import SharedKey


class ListenerDialect(Protocol):
    """What a listener leaves to the adapter of its dialect."""

    def engine_config(self, config: EngineConfig) -> EngineConfig:
        """The configuration of the engines of its connections."""

    def attach(self, link: Link, admit: Callable[[], None]) -> None:
        """Attach a link instead of the scope; raises AmqpError.

        `admit` counts it, once it is known for whom it acts.
        """

    def link_ended(self, link: Link) -> None:
        """A link was refused or has ended."""

    def closed(self, engine: Hashable) -> None:
        """A connection has ended."""

    def renew(self, keys: Iterable[SharedKey]) -> None:
        """Use the keys of a reloaded policy."""
