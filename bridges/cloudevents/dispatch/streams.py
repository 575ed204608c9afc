"""The streams of one subscription: its positions in them, and a reader of each that can be read."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import Final, Protocol

from bridges.cloudevents.delivery.checkpoint import StreamPosition
from bridges.cloudevents.delivery.counts import DeliveryCounts
from bridges.cloudevents.delivery.entry import EventLocation
from bridges.cloudevents.delivery.queue import DeliveryQueue
from bridges.cloudevents.reading.shared_tail import SharedTails
from bridges.cloudevents.reading.stream_reader import EventStreamListener, EventStreamReader, with_unfinished
from bridges.kafka.tap import TopicLog, identity_of
from gateway.errors import AmqpError
from gateway.observability.logs import get_logger
from gateway.tasks import Supervisor

LOG: Final = get_logger(__name__)
_RETRY_DELAY: Final = 1.0
"""Seconds before a stream that could not be read is looked up again."""
_READ: Final = StreamPosition("", {})
"""In place of the position of a stream whose reader has it."""


class StreamsContext(Protocol):
    """The dispatcher that delivers the subscription."""

    @property
    def supervisor(self) -> Supervisor: ...
    @property
    def tails(self) -> SharedTails:
        """The tails of the streams."""

    def log(self, address: str) -> TopicLog | None:
        """The log of a stream; None if the policy no longer has it."""


class SubscriptionStreams:
    """Opens readers until `close`, each as soon as its stream can be read."""

    __slots__ = (
        "_closed",
        "_context",
        "_counts",
        "_id",
        "_listener",
        "_positions",
        "_queue",
        "_readers",
        "_uncopied",
        "_unreadable",
    )  # fmt: skip

    def __init__(
        self,
        id: str,
        positions: Mapping[str, StreamPosition],
        queue: DeliveryQueue,
        counts: DeliveryCounts,
        context: StreamsContext,
        listener: EventStreamListener,
    ) -> None:
        """`id` is the subscription's; `listener` is woken when a stream can be read."""
        self._id: Final = id
        self._positions: Final = dict(positions)
        self._queue: Final = queue
        self._counts: Final = counts
        self._context: Final = context
        self._listener: Final = listener
        self._readers: Final[dict[str, EventStreamReader]] = {}
        self._unreadable: Final[dict[str, None]] = {}
        self._uncopied: Final[dict[EventLocation, None]] = {}
        """Refused events whose dead letters Kafka has not taken."""
        self._closed = False
        queue.unreadable |= positions.keys()

    def __iter__(self) -> Iterator[str]:
        """The addresses of all streams."""
        return iter(self._positions)

    @property
    def readers(self) -> list[EventStreamReader]:
        """The readers of the streams that can be read."""
        return list(self._readers.values())

    def reader(self, address: str) -> EventStreamReader | None:
        """The reader of a stream; None if it cannot be read now."""
        return self._readers.get(address)

    @property
    def trouble(self) -> str:
        """What cannot be read or written now; empty if all is well."""
        for address in self._unreadable:
            return f"{address} cannot be read"
        for location in self._uncopied:
            return f"the dead letters of {location.address} cannot be written"
        return ""

    def copy_failed(self, location: EventLocation) -> None:
        """A dead letter was not written, and is tried again."""
        if location not in self._uncopied:
            self._uncopied[location] = None
            self._listener.wake()

    @property
    def uncopied(self) -> int:
        """The number of refused events whose dead letters Kafka has not taken, and is asked to take again."""
        return len(self._uncopied)

    def copied(self, location: EventLocation) -> None:
        """A dead letter was written, or is not needed."""
        self._uncopied.pop(location, None)

    def positions(self) -> Mapping[str, StreamPosition]:
        """The progress in each stream."""
        without = ((address, at) for address, at in self._positions.items() if address not in self._readers)
        unread = {address: with_unfinished(at, address, self._queue) for address, at in without}
        return {**unread, **{address: reader.position() for address, reader in self._readers.items()}}

    def open(self, address: str) -> None:
        """Look for a stream, repeatedly until it can be read."""
        if not self._closed:
            self._context.supervisor.start(self._open(address), "stream-open")

    async def _open(self, address: str) -> None:
        log = self._context.log(address)
        while log is not None and not self._closed and address not in self._readers:
            try:
                topic = await log.find()
            except AmqpError as error:
                self._report(address, error)
                await asyncio.sleep(_RETRY_DELAY)
                continue
            if not self._closed and address not in self._readers:
                self._unreadable.pop(address, None)
                if self._is_outdated(address, identity_of(topic)):
                    self._listener.on_topic_replaced(address)
                    return
                self._compare(address, identity_of(topic))
                tail = self._context.tails.of(address, log, topic)
                self._readers[address] = EventStreamReader(
                    address, log, topic, self._positions[address], self._queue, self._listener, tail
                )
                self._positions[address] = _READ
                self._queue.unreadable -= {address}
                self._listener.wake()

    def _is_outdated(self, address: str, identity: str) -> bool:
        """Whether the queue has events of an earlier topic of this name, at whose offsets there are others now."""
        at = self._positions[address]
        return at.identity != identity and any(self._queue.unfinished(address, number) for number in at.positions)

    def _report(self, address: str, error: AmqpError) -> None:
        """Say it once: `status` says it until the stream can be read."""
        if address not in self._unreadable:
            self._unreadable[address] = None
            LOG.warning("stream of a subscription cannot be read", id=self._id, stream=address, error=str(error))
            self._listener.wake()

    def _compare(self, address: str, identity: str) -> None:
        """Count what was read of an earlier topic of this name and is not finished: it cannot be sent any more."""
        position = self._positions[address]
        if position.identity != identity:
            lost = sum(len(each.unfinished) for each in position.positions.values())
            self._counts.lost += lost
            LOG.warning("topic of a subscription was recreated", id=self._id, stream=address, lost=lost)

    def failed(self, address: str) -> None:
        """A stream cannot be read any more: look for it again."""
        self._close_reader(address)
        asyncio.get_running_loop().call_later(_RETRY_DELAY, self.open, address)

    def _close_reader(self, address: str) -> None:
        reader = self._readers.pop(address, None)
        if reader is not None:
            self._positions[address] = reader.next_position()
            reader.close()
            self._queue.unreadable |= {address}
            self._queue.refetch_failed(address)

    def close(self) -> None:
        """Stop reading; the positions stay."""
        for address in list(self._readers):
            self._close_reader(address)
        self._closed = True
