"""The origin of a message around another one, for whoever gives the outcome itself (`gateway.links.link`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from gateway.errors import AmqpError
    from gateway.links.link import Delivery, MessageOrigin


class _AroundOrigin(Protocol):
    """What has an origin in it."""

    @property
    def _link(self) -> MessageOrigin: ...


class WrappedOrigin:
    """Passes on what a `MessageOrigin` has for a message, but its outcome, to the `_link` of a subclass."""

    __slots__ = ()

    @property
    def behind(self: _AroundOrigin) -> str | None:
        return self._link.behind

    @property
    def rejects(self: _AroundOrigin) -> bool:
        return self._link.rejects

    def drop(self: _AroundOrigin, delivery: Delivery) -> None:
        self._link.drop(delivery)

    def fail(self: _AroundOrigin, error: AmqpError) -> None:
        self._link.fail(error)

    def tag(self: _AroundOrigin, delivery: Delivery) -> bytes:
        return self._link.tag(delivery)

    def message_refused(self: _AroundOrigin, error: AmqpError) -> None:
        self._link.message_refused(error)
