"""The link of a client that sends, as nodes see it: addresses, partition keys and batches are translated."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from bridges.eventhubs.batches import BatchQueue, EventBatch
from bridges.eventhubs.conditions import error_of, named, outcome_of
from bridges.eventhubs.messages import Partitioner, grouped, has_key
from bridges.eventhubs.unpacking import BATCH_FORMAT, check, unpack
from gateway.amqp.codec.types import ValueMap
from gateway.amqp.link.handlers import (
    BatchIncoming,
    Delivery,
    Incoming,
    Outgoing,
    Transfer,
    takes_batches,
)
from gateway.amqp.link.outcomes import SETTLED, Outcome, Rejected
from gateway.amqp.link.wrappers import IncomingWrapper
from gateway.amqp.message.hop import ROUTING
from gateway.errors import AmqpError
from gateway.links.link import IncomingLink
from gateway.links.reject import reject_delivery
from gateway.links.wrapped_link import WrappedIncomingLink

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link as PeerLink
    from gateway.amqp.proton.proton_data import TerminusFields

LARGEST: Final = 1024 * 1024
"""The largest message or batch in bytes, as in Event Hubs."""


class HubSender(WrappedIncomingLink):
    """A sender of a client, as a node sees it; the parts of a batch are deliveries of their own."""

    def __init__(
        self,
        link: PeerLink,
        hub: str,
        target: TerminusFields,
        properties: ValueMap,
        partitioner: Partitioner | None,
        later: Callable[[float, Callable[[], None]], object],
    ) -> None:
        """`hub`: its name for the client; `later` calls a function after some seconds."""
        super().__init__(cast(IncomingLink, link))
        self.peer: Final = link
        self._hub: Final = hub
        self._target: Final = target
        self._properties: Final = properties
        self.partitioner: Final = partitioner
        self._owed = 0
        self.batches: Final = BatchQueue(self, lambda step: later(0, partial(link.attempt, step)))
        self._handler: BatchIncoming | None = None
        self._together: int | None = None
        self._numbers: Final = itertools.count(zlib.crc32(link.name.encode()))  # links begin at different partitions
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

    @property
    def together(self) -> int | None:
        """Event Hubs writes a batch without a key to one partition, each batch to the next one."""
        return self._together

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
        self._handler = cast(BatchIncoming, handler)
        self._link.accept(
            _Unpacker(self._handler, self), capabilities=capabilities, max_message_size=largest, understands=understands
        )

    def told(self, error: AmqpError) -> AmqpError:
        return error_of(named(error, self._target.address or "", self._hub))

    def fail(self, error: AmqpError) -> None:
        self._link.fail(self.told(error))

    def grant(self, credit: int) -> None:
        """Grant what is not owed: the node returns credit for each event, and the client has used that of a batch."""
        kept = min(credit, self._owed) if self._owed > 0 else 0
        self._owed -= kept
        if credit > kept:
            self._link.grant(credit - kept)

    def settle(self, delivery: Delivery, outcome: Outcome) -> None:
        outcome = outcome_of(outcome)
        if isinstance(delivery, EventBatch):
            self.batches.settled(delivery, outcome)
        else:
            self._link.settle(delivery, self._tagged(outcome, delivery))

    def put(
        self, delivery: Delivery, settled: bool, read: Callable[[], Iterator[bytes]], *, together: bool
    ) -> None:
        """Hand over what `read` gives, behind the batches before it; `together`: to one partition."""
        number = next(self._numbers) if together else None
        self.batches.put(EventBatch(delivery, settled, read, number))

    # -- as the owner of batches

    def hand_over(self, batch: EventBatch, events: list[Transfer], *, last: bool) -> None:
        """See `BatchOwner`, as below."""
        self._owed += len(events) - last
        outer, self._together = self._together, batch.number
        try:
            self._pass_on(events)
        finally:
            self._together = outer

    def _pass_on(self, events: list[Transfer]) -> None:
        handler = self._handler
        assert handler is not None  # messages come after the attach
        if takes_batches(handler):
            handler.on_transfers(events)
        else:
            for event_ in events:
                handler.on_transfer(*event_)

    def abandoned(self, batch: EventBatch) -> None:
        self.grant(1)

    def finish(self, batch: EventBatch) -> None:
        self._link.settle(batch.delivery, SETTLED if batch.settled else self._tagged(batch.outcome, batch.delivery))

    def reject(self, batch: EventBatch, error: AmqpError) -> None:
        reject_delivery(self, batch.delivery, error, batch.settled)
        self.grant(1)

    def _tagged(self, outcome: Outcome, delivery: Delivery) -> Outcome:
        """With the delivery-tag in an error's info, as `reject_delivery` does: a client needs all its fields."""
        if not isinstance(outcome, Rejected) or outcome.error is None or outcome.error.info:
            return outcome
        error = outcome.error
        info = {"delivery-tag": self._link.tag(delivery)}
        return Rejected(AmqpError(error.condition, error.description, info=info, fault=error.fault))

    def drop(self, delivery: Delivery) -> None:
        if isinstance(delivery, EventBatch):
            self.settle(delivery, SETTLED)
        else:
            self._link.drop(delivery)

    def tag(self, delivery: Delivery) -> bytes:
        return self._link.tag(delivery.delivery if isinstance(delivery, EventBatch) else delivery)


class _Unpacker(IncomingWrapper[BatchIncoming]):
    """Unpacks batches and translates partition keys before the node's handler gets a message."""

    def __init__(self, handler: BatchIncoming, link: HubSender) -> None:
        super().__init__(handler)
        self._link: Final = link

    def on_transfers(self, messages: Sequence[Transfer]) -> None:
        for message in messages:
            if self._link.open:
                self.on_transfer(*message)

    def on_transfer(self, delivery: Delivery, data: bytes, settled: bool) -> None:
        """Hand over an event, behind the batches before it."""
        link = self._link
        if link.peer.message_format == BATCH_FORMAT:
            link.put(delivery, settled, lambda: map(self._translated, unpack(data)), together=True)
        elif link.batches:
            link.put(delivery, settled, lambda: map(self._event, (data,)), together=False)
        else:
            try:
                event_ = self._event(data)
            except AmqpError as error:
                reject_delivery(link, delivery, error, settled)
                link.grant(1)
            else:
                self._handler.on_transfer(delivery, event_, settled)

    def on_detach(self, error: AmqpError | None) -> None:
        self._link.batches.clear()
        super().on_detach(error)

    def _event(self, data: bytes) -> bytes:
        """A message that is an event itself. Raises AmqpError if it is none."""
        check(data)
        return self._translated(data)

    def _translated(self, data: bytes) -> bytes:
        return grouped(data, self._link.partitioner) if has_key(data) else data
