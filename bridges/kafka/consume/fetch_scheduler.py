"""Fetching for many links with few Kafka clients (KM-16).

A fetch position is an offset of one partition that moves forward as links take its batches. A reader (a thread with a
Kafka client) has at most one position in each partition. If a link waits at an offset without a fetch position, one is
opened on a reader that has none in that partition. So links at the same offset share a fetch position; links that are
behind get their own, and use the cached batches of others when they have caught up. If links wait at more offsets of a
partition than there are readers, they take turns.

Memory is bounded by a `LogShare`: a position pauses while `AHEAD` of its batches are untaken, or while all positions
together have fetched too far ahead. Everything here runs on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from bridges.kafka.consume.batches import BatchCache, FetchedBatch, PartitionBuffer
from bridges.kafka.consume.fetch_position import AHEAD, FetchPosition
from bridges.kafka.consume.poll import Key
from bridges.kafka.consume.protocols import Waiter
from bridges.kafka.consume.reader import Fetched, PartitionReader, ReaderOwner
from bridges.kafka.records.record import KafkaRecord
from gateway.errors import RESOURCE_DELETED, AmqpError
from gateway.held.logs import LogShare

_FAR_AHEAD: Final = 8
"""Untaken batches at which a position is paused in a client whose other positions still fetch."""
_TURN: Final = 64
"""Batches after which a position is closed if other offsets of the partition wait for a reader."""
_CHECK: Final = 0.25
"""Seconds after which a position that fetched nothing is closed if other offsets wait for a reader."""
_SPREAD: Final = 4
"""Readers that are started for different topics before topics share a reader."""


class FetchScheduler:
    """The readers of one cluster and isolation, their positions, and what they have fetched."""

    def __init__(
        self,
        new_reader: Callable[[ReaderOwner], PartitionReader],
        call_soon: Callable[..., object],
        call_later: Callable[..., object],
        *,
        share: LogShare,
        trouble: Callable[[], None],
        gone: Callable[[str], None],
    ) -> None:
        """`gone` is called with the name of a replaced topic, and notifies its links; `trouble` after errors."""
        self._make_reader: Final = new_reader
        self._call_soon: Final = call_soon
        self._call_later: Final = call_later
        self._owner: Final = ReaderOwner(self._arrived, self._failed, trouble, self._ended)
        self._share = share
        self._cache: Final = BatchCache(share.cache)
        self._bytes_ahead = 0
        self._buffers: Final[dict[Key, PartitionBuffer]] = {}
        self._positions: Final[dict[PartitionReader, dict[Key, FetchPosition]]] = {}
        self._ending: Final[set[PartitionReader]] = set()
        self._clients: Final[dict[PartitionReader, int]] = {}  # bytes that each may take
        self._turns: Final[set[Key]] = set()  # partitions with a link that waits for a reader
        self._checking: Final[set[Key]] = set()
        self._pruning: Final[set[PartitionBuffer]] = set()
        self._gone: Final = gone

    def limit(self, share: LogShare) -> None:
        """Set the memory that may be used; existing clients retain their queues until they end."""
        self._share = share
        self._cache.limit(share.cache)

    # -- links

    def join(self, topic: str, partition: int, member: Waiter) -> PartitionBuffer:
        """The buffer of a partition that `member` reads until it calls `leave`."""
        key = (topic, partition)
        buffer = self._buffers.get(key)
        if buffer is None:
            buffer = self._buffers[key] = PartitionBuffer(topic, partition, self._cache, self._request, self._selected)
        buffer.join(member)
        return buffer

    def leave(self, buffer: PartitionBuffer, member: Waiter, offset: int) -> None:
        """`member` stops reading; the buffer is dropped with its last link."""
        buffer.leave(member, offset)
        if not buffer.members and self._buffers.get(buffer.key) is buffer:
            for position in self._positions_of(buffer):
                self._close(position)
            buffer.clear()
            del self._buffers[buffer.key]
            self._turns.discard(buffer.key)
            return
        self._prune_soon(buffer)
        if buffer.key in self._turns:
            self._next_turn(buffer)

    def truncate(self, topic: str, lows: Mapping[int, int]) -> None:
        """Drop the events before `lows`, the offsets at which the partitions of a topic begin now."""
        for partition, low in lows.items():
            buffer = self._buffers.get((topic, partition))
            if buffer is not None:
                buffer.truncate(low)

    def find(self, topic: str, partition: int, offset: int) -> FetchedBatch | None:
        """The batch in memory that has `offset`, for somebody who does not wait for it."""
        buffer = self._buffers.get((topic, partition))
        return None if buffer is None else buffer.find(offset)

    def buffered(self, topic: str) -> list[int]:
        """The partitions of a topic with batches in memory."""
        return [each.partition for each in self._buffers.values() if each.topic == topic and each.batch_count]

    @property
    def readers(self) -> list[PartitionReader]:
        """All readers that have not ended."""
        return [*self._positions, *self._ending]

    def states(self) -> dict[str, float]:
        """Gauges, for metrics."""
        return {
            "readers": len(self._positions) + len(self._ending),
            "streams": sum(map(len, self._positions.values())),
            "turns": len(self._turns),
            "client_bytes": sum(self._clients.values()),
            "ahead_bytes": self._bytes_ahead,
            "cached_bytes": self._cache.size,
            "cached_chunks": sum(buffer.batch_count for buffer in self._buffers.values()),
        }

    @property
    def held(self) -> int:
        """Bytes of all batches and of the queues in the clients."""
        return self._cache.size + self._bytes_ahead + sum(self._clients.values())

    def _positions_of(self, buffer: PartitionBuffer) -> list[FetchPosition]:
        return [positions[buffer.key] for positions in self._positions.values() if buffer.key in positions]

    # -- which reader fetches what, and how

    def _selected(self, buffer: PartitionBuffer) -> None:
        """Called when `buffer.is_whole` has changed."""
        for position in self._positions_of(buffer):
            position.reader.set_filtered(buffer.key, not buffer.is_whole)

    def _request(self, buffer: PartitionBuffer, offset: int) -> None:
        """Fetch from `offset`, where a link waits; queue it if every reader is busy with the partition."""
        self._prune_soon(buffer)
        for position in self._positions_of(buffer):
            if position.offset == offset:
                self.advance(position)
                return
        reader = self._reader_for(buffer)
        if reader is not None:
            self._open(buffer, offset, reader)
            return
        spare = next((position for position in self._positions_of(buffer) if position.at_end), None)
        if spare is None or spare.offset in buffer.waiting:
            self._queue_turn(buffer)
        if spare is not None:
            self._close(spare)
            self._open(buffer, offset, spare.reader)

    def _prune_soon(self, buffer: PartitionBuffer) -> None:
        """Check soon for batches that no link needs, because a link has moved on or left."""
        positions = self._positions_of(buffer)
        full = any(len(each.untaken) >= AHEAD for each in positions)
        if buffer not in self._pruning and (len(positions) > 1 or full):
            self._pruning.add(buffer)
            self._call_soon(self._prune, buffer)

    def _prune(self, buffer: PartitionBuffer) -> None:
        """Release what every link has passed: links may have read it from batches of another position, or left.

        A position that is behind all links would otherwise neither fetch nor end.
        """
        self._pruning.discard(buffer)
        if self._buffers.get(buffer.key) is not buffer:
            return
        low, before = buffer.low_watermark, self._positions_of(buffer)
        for position in before:
            if position.offset < low:
                self._close(position)
            else:
                self._release(position, low)
        if buffer.key in self._turns and len(self._positions_of(buffer)) < len(before):
            self._next_turn(buffer)

    def _release(self, position: FetchPosition, end: int) -> None:
        """Move the untaken batches up to offset `end` to the cache."""
        for batch in [batch for batch in position.untaken if batch.end <= end]:
            batch.source = None
            self._cache.use(batch)
            position.taken(batch)

    def _queue_turn(self, buffer: PartitionBuffer) -> None:
        """A link waits for a reader: check repeatedly whether a position is idle."""
        self._turns.add(buffer.key)
        if buffer.key not in self._checking:
            self._checking.add(buffer.key)
            self._call_later(_CHECK, self._check_turns, buffer)

    def _check_turns(self, buffer: PartitionBuffer) -> None:
        """Close the positions that fetched nothing since the last check, and open others.

        Between two checks an idle position is retained: moving a client to another offset takes a while.
        """
        self._checking.discard(buffer.key)
        if buffer.key not in self._turns or self._buffers.get(buffer.key) is not buffer:
            return
        for position in self._positions_of(buffer):
            if position.fetched_at_check == position.fetched:
                self._close(position)
                buffer.requeue(position.offset)
            position.fetched_at_check = position.fetched
        self._next_turn(buffer)

    def _reader_for(self, buffer: PartitionBuffer) -> PartitionReader | None:
        free = [(reader, own) for reader, own in self._positions.items() if buffer.key not in own]
        same = [reader for reader, own in free if any(topic == buffer.topic for topic, _ in own)]
        if same:
            return min(same, key=lambda reader: len(self._positions[reader]))
        empty = [reader for reader, own in free if not own]
        if empty:
            return empty[0]
        limit = self._share.readers
        if len(self._positions) < (limit if not free else min(limit, _SPREAD)):
            return self._new_reader()
        return min(free, key=lambda item: len(item[1]))[0] if free else None

    def _new_reader(self) -> PartitionReader:
        reader = self._make_reader(self._owner)
        self._positions[reader], self._clients[reader] = {}, self._share.client
        reader.start()
        return reader

    def _open(self, buffer: PartitionBuffer, offset: int, reader: PartitionReader) -> None:
        reader.set_filtered(buffer.key, not buffer.is_whole)
        serial = reader.add(buffer.key, offset)
        self._positions[reader][buffer.key] = FetchPosition(self, buffer, offset, reader, serial)
        self._gate(reader)

    def _close(self, position: FetchPosition) -> None:
        own = self._positions.get(position.reader)
        if own is None or own.get(position.buffer.key) is not position:
            return
        del own[position.buffer.key]
        self._release(position, position.offset)
        position.reader.remove(position.buffer.key)
        if own:
            self._gate(position.reader)
        else:
            self._call_soon(self._end_if_idle, position.reader)

    def _end_if_idle(self, reader: PartitionReader) -> None:
        if self._positions.get(reader) == {}:
            del self._positions[reader]
            self._ending.add(reader)
            reader.stop()

    def _ended(self, reader: PartitionReader) -> None:
        """Called on the loop when a thread has ended; if it failed, other readers continue for its links."""
        self._ending.discard(reader)
        self._clients.pop(reader, None)
        for position in list(self._positions.pop(reader, {}).values()):
            for batch in position.untaken:
                batch.source = None
                self.count_ahead(-batch.size)
            position.untaken.clear()
            self._call_later(_CHECK, self._resume, position.buffer)

    def _resume(self, buffer: PartitionBuffer) -> None:
        if self._buffers.get(buffer.key) is buffer:
            self._next_turn(buffer)

    # -- flow

    @property
    def over_limit(self) -> bool:
        """All positions together have fetched so far ahead that each fetches only what links wait for."""
        return self._bytes_ahead > self._share.ahead

    def count_ahead(self, size: int) -> None:
        """Add `size` bytes, positive or negative, to what was fetched ahead; below the limit all positions continue."""
        before = self.over_limit
        self._bytes_ahead += size
        if before and not self.over_limit:
            self._call_soon(self._advance_all)

    def _advance_all(self) -> None:
        for position in [position for own in self._positions.values() for position in own.values()]:
            self.advance(position)

    def advance(self, position: FetchPosition) -> None:
        """Resume a position if its batches were taken or a link waits."""
        if position.paused and not position.has_enough:
            position.paused = False
            position.reader.pause(position.buffer.key, False)
        self._gate(position.reader)

    def _gate(self, reader: PartitionReader) -> None:
        """Open a reader while one of its positions needs records; pause positions that are far ahead."""
        own = self._positions.get(reader)
        if own is None:
            return
        reader.gate(closed=all(position.has_enough for position in own.values()))
        if len(own) > 1:
            for key, position in own.items():
                far = len(position.untaken) >= _FAR_AHEAD or self.over_limit
                if not position.paused and far and position.has_enough:
                    position.paused = True
                    reader.pause(key, True)

    # -- from the readers

    def _arrived(self, reader: PartitionReader, fetched: Fetched) -> None:
        own = self._positions.get(reader)
        if own is None:
            return
        for key, records in fetched.records.items():
            position = own.get(key)
            if position is not None and position.serial <= fetched.serial:
                self._add_batch(position, records[-1].offset() + 1, records)
        for key, end in fetched.ends.items():
            position = own.get(key)
            if position is not None and position.serial <= fetched.serial:
                self._at_end(position, end)
        for key, low in fetched.lost.items():
            position = own.get(key)
            if position is not None and position.serial <= fetched.serial:
                lost, position.offset = position.offset, low
                position.buffer.skip_deleted(lost, low)
        self._gate(reader)

    def _add_batch(self, position: FetchPosition, end: int, records: Sequence[KafkaRecord]) -> None:
        batch = FetchedBatch(position.buffer, position.offset, end, records, position)
        position.untaken[batch] = None
        self.count_ahead(batch.size)
        position.at_end = False
        position.offset = end
        position.fetched += 1
        position.buffer.add(batch)
        self._retire(position)

    def _at_end(self, position: FetchPosition, end: int) -> None:
        if end > position.offset:  # only markers of transactions are before the end
            self._add_batch(position, end, [])
        position.at_end = True
        self._retire(position)

    def _retire(self, position: FetchPosition) -> None:
        """Close a position whose turn is over, or that has reached another position or its batches."""
        buffer, offset = position.buffer, position.offset
        others = (each for each in self._positions_of(buffer) if each is not position)
        twin = next((each for each in others if each.offset == offset), None)
        doubled = buffer.find(offset) is not None and offset not in buffer.waiting
        over = buffer.key in self._turns and (position.fetched >= _TURN or position.at_end)
        if over or doubled or twin is not None:
            self._close(position)
            buffer.requeue(offset)
            if twin is not None:
                self.advance(twin)  # it now also serves the links that wait here
            self._next_turn(buffer)

    def _next_turn(self, buffer: PartitionBuffer) -> None:
        self._turns.discard(buffer.key)
        fetched = {position.offset for position in self._positions_of(buffer)}
        for offset in [waiting for waiting in buffer.waiting if waiting not in fetched]:
            self._request(buffer, offset)

    def _failed(self, topic: str | None, error: AmqpError) -> None:
        """Kafka does not permit reading `topic` (None: any topic), or the topic was replaced."""
        if topic is not None and error.condition == RESOURCE_DELETED:
            self._gone(topic)
            return
        for buffer in [buffer for buffer in self._buffers.values() if topic in (None, buffer.topic)]:
            for member in list(buffer.members):
                member.failed(error)

    def stop(self) -> Iterable[PartitionReader]:
        """Ask all readers to end, and return them."""
        readers = self.readers
        for reader in readers:
            reader.stop()
        return readers
