"""The links of Event Hubs' clients as nodes see them: addresses, filters, properties and messages are translated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, cast

from bridges.eventhubs.conditions import error_of, outcome_of
from bridges.eventhubs.messages import BATCH_FORMAT, LastEvent, Partitioner, event, grouped, has_key, unpack
from gateway.amqp.codec.types import ValueMap
from gateway.amqp.link.handlers import (
    BatchIncoming,
    BatchOutgoing,
    Delivery,
    Incoming,
    Outgoing,
    SendContext,
    Transfer,
    takes_batches,
)
from gateway.amqp.link.outcomes import ACCEPTED, SETTLED, Outcome, Rejected
from gateway.amqp.link.wrappers import IncomingWrapper, OutgoingWrapper
from gateway.amqp.message.hop import ROUTING
from gateway.errors import AmqpError
from gateway.links.link import IncomingLink, OutgoingLink, OutgoingMessages
from gateway.links.reject import reject_delivery
from gateway.links.wrapped_link import WrappedIncomingLink, WrappedOutgoingLink

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link as PeerLink
    from gateway.amqp.proton.proton_data import TerminusFields

class EndFollower(Protocol):
    """Follows the end of a partition."""

    @property
    def last(self) -> LastEvent | None:
        """The last event; None: not known yet."""

    def stop(self) -> None: ...


LARGEST: Final = 1024 * 1024
"""The largest message or batch in bytes, as in Event Hubs."""


class HubReceiver(WrappedOutgoingLink):
    """A receiver of a client, as a node of event streams sees it."""

    def __init__(self, link: PeerLink, source: TerminusFields, properties: ValueMap) -> None:
        super().__init__(cast(OutgoingLink, link))
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

    def refuse(self, error: AmqpError) -> None:
        self.untrack()
        self._link.refuse(error_of(error))

    def detach(self, error: AmqpError | None = None) -> None:
        self._link.detach(None if error is None else error_of(error))

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


class BatchInFlight:
    """A batch of the client in flight: it gets one outcome when each of its events has one."""

    __slots__ = ("delivery", "left", "outcome", "settled")

    def __init__(self, delivery: Delivery, left: int, settled: bool) -> None:
        self.delivery: Final = delivery
        self.left = left
        self.settled: Final = settled
        self.outcome: Outcome = ACCEPTED

    def finished(self, outcome: Outcome) -> bool:
        """Note the outcome of one event, the worst counts; returns whether it was the last one."""
        if outcome is not ACCEPTED and outcome is not SETTLED and not isinstance(self.outcome, Rejected):
            self.outcome = outcome
        self.left -= 1
        return not self.left


class HubSender(WrappedIncomingLink):
    """A sender of a client, as a node sees it; the parts of a batch are deliveries of their own."""

    def __init__(
        self, link: PeerLink, target: TerminusFields, properties: ValueMap, partitioner: Partitioner | None
    ) -> None:
        super().__init__(cast(IncomingLink, link))
        self.peer: Final = link
        self._target: Final = target
        self._properties: Final = properties
        self.partitioner: Final = partitioner
        self._owed = 0
        self.accept_all: Final = None  # type: ignore[misc]  # each outcome may belong to a batch

    @property
    def address(self) -> str | None:
        return self._target.address

    @property
    def target(self) -> TerminusFields:
        return self._target

    @property
    def properties(self) -> ValueMap:
        return self._properties

    def accept(
        self,
        handler: Incoming | Outgoing,
        *,
        capabilities: Iterable[str] = (),
        max_message_size: int = 0,
        understands: frozenset[bytes] = ROUTING,
        **_: object,
    ) -> None:
        """Answer with the capabilities and the limit of the node."""
        largest = min(max_message_size or LARGEST, LARGEST)
        unpacker = _Unpacker(cast(BatchIncoming, handler), self)
        self._link.accept(
            unpacker, capabilities=capabilities, max_message_size=largest, understands=understands
        )

    def refuse(self, error: AmqpError) -> None:
        self._link.refuse(error_of(error))

    def detach(self, error: AmqpError | None = None) -> None:
        self._link.detach(None if error is None else error_of(error))

    def fail(self, error: AmqpError) -> None:
        self._link.fail(error_of(error))

    def unpacked(self, count: int) -> None:
        """A message became `count` ones: the node returns the credit of each, the client has used one."""
        self._owed += count - 1

    def grant(self, credit: int) -> None:
        kept = min(credit, self._owed) if self._owed > 0 else 0
        self._owed -= kept
        if credit > kept:
            self._link.grant(credit - kept)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        outcome = outcome_of(outcome)
        if not isinstance(delivery, BatchInFlight):
            self._link.settle(delivery, self._tagged(outcome, delivery))
        elif delivery.finished(outcome):
            whole = SETTLED if delivery.settled else self._tagged(delivery.outcome, delivery.delivery)
            self._link.settle(delivery.delivery, whole)

    def _tagged(self, outcome: Outcome, delivery: Delivery) -> Outcome:
        """With the delivery-tag in an error's info, as `reject_delivery` does: a client needs all its fields."""
        if not isinstance(outcome, Rejected) or outcome.error is None or outcome.error.info:
            return outcome
        error = outcome.error
        info = {"delivery-tag": self._link.tag(delivery)}
        return Rejected(AmqpError(error.condition, error.description, info=info, fault=error.fault))

    def drop(self, delivery: Delivery) -> None:
        if isinstance(delivery, BatchInFlight):
            self.settle(delivery, SETTLED)
        else:
            self._link.drop(delivery)

    def tag(self, delivery: Delivery) -> bytes:
        return self._link.tag(delivery.delivery if isinstance(delivery, BatchInFlight) else delivery)


class _Unpacker(IncomingWrapper[BatchIncoming]):
    """Unpacks batches and translates partition keys before the node's handler gets a message."""

    def __init__(self, handler: BatchIncoming, link: HubSender) -> None:
        super().__init__(handler)
        self._link: Final = link

    def on_transfers(self, messages: Sequence[Transfer]) -> None:
        if self._link.peer.message_format or any(has_key(data) for _, data, _ in messages):
            for message in messages:
                if self._link.open:
                    self.on_transfer(*message)
        else:
            self._handler.on_transfers(messages)

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        link = self._link
        try:
            if link.peer.message_format == BATCH_FORMAT:
                events = [self._keyed(each) for each in unpack(data)]
                if not events:
                    link.settle(delivery, SETTLED if settled else ACCEPTED)
                    link.grant(1)
                    return
                link.unpacked(len(events))
                part: Delivery = BatchInFlight(delivery, len(events), settled)
            else:
                events, part = [self._keyed(data)], delivery
        except AmqpError as error:
            reject_delivery(link, delivery, error, settled)
            link.grant(1)
            return
        if len(events) > 1 and takes_batches(self._handler):
            self._handler.on_transfers([(part, each, settled) for each in events])
        else:
            for each in events:
                self._handler.on_transfer(part, each, settled)

    def _keyed(self, data: bytes) -> bytes:
        return grouped(data, self._link.partitioner) if has_key(data) else data
