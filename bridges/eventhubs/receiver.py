"""The link of a client that receives, as nodes see it: addresses, filters, properties and events are translated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, cast

from bridges.eventhubs.conditions import error_of, named
from bridges.eventhubs.messages import LastEvent, event
from gateway.amqp.codec.types import ValueMap
from gateway.amqp.link.handlers import (
    BatchOutgoing,
    Incoming,
    Outgoing,
    SendContext,
)
from gateway.amqp.link.wrappers import OutgoingWrapper
from gateway.errors import AmqpError
from gateway.links.link import OutgoingLink, OutgoingMessages
from gateway.links.wrapped_link import WrappedOutgoingLink

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link as PeerLink
    from gateway.amqp.proton.proton_data import TerminusFields


class EndFollower(Protocol):
    """Follows the end of a partition."""

    @property
    def last(self) -> LastEvent | None:
        """The last event; None: not known yet."""

    def stop(self) -> None: ...


class HubReceiver(WrappedOutgoingLink):
    """A receiver of a client, as a node of event streams sees it."""

    def __init__(self, link: PeerLink, hub: str, source: TerminusFields, properties: ValueMap) -> None:
        """`hub`: its name for the client."""
        super().__init__(cast(OutgoingLink, link))
        self._hub: Final = hub
        self._source: Final = source
        self._properties: Final = properties
        self._tracker: EndFollower | None = None

    @property
    def address(self) -> str | None:
        return self._source.address

    @property
    def source(self) -> TerminusFields:
        return self._source

    @property
    def properties(self) -> ValueMap:
        return self._properties

    def accept(
        self, handler: Incoming | Outgoing, *, distribution_mode: str | None = None, **_: object
    ) -> None:
        """Answer with the filter of the client, which is in force in another form.

        Events are sent settled, as Event Hubs does: a position is all that its receivers acknowledge, and the client
        for Python never settles.
        """
        filters = self._link.source.filter
        if self._tracker is not None:
            handler = _Tracked(cast(BatchOutgoing, handler), self._tracker)
        self._link.accept(handler, filter=filters, distribution_mode=distribution_mode, settled=True)

    def track(self, tracker: EndFollower) -> None:
        """Tell the client with each event where the partition ends."""
        self._tracker = tracker

    def untrack(self) -> None:
        """The link will not be there."""
        if self._tracker is not None:
            self._tracker.stop()

    def told(self, error: AmqpError) -> AmqpError:
        return error_of(named(error, self._source.address or "", self._hub))

    def refuse(self, error: AmqpError) -> None:
        self.untrack()
        super().refuse(error)

    def send(self, data: bytes, context: SendContext, settled: bool = False) -> None:
        self._link.send(event(data, self._last), context, settled)

    def send_all(self, messages: OutgoingMessages) -> None:
        last = self._last
        for message in messages:
            self._link.send(event(message[0], last), message)

    @property
    def _last(self) -> LastEvent | None:
        return None if self._tracker is None else self._tracker.last


class _Tracked(OutgoingWrapper):
    """The handler of a receiver that tracks the end of its partition."""

    def __init__(self, handler: BatchOutgoing, tracker: EndFollower) -> None:
        super().__init__(handler)
        self._tracker: Final = tracker

    def on_detach(self, error: AmqpError | None) -> None:
        self._tracker.stop()
        super().on_detach(error)
