"""Who reads what of a cluster: many links, few Kafka clients (KM-16).

A stream is one position of one partition that moves forward as its chunks are picked. Links wait at positions; a
position that nobody reads gets a stream, on a reader (a thread with a Kafka client) that has no stream on that
partition yet, for a client has one position in each. So links at the same place share a stream, links that are
behind get one of their own, and meet the chunks that others left in the cache when they have caught up. Where
more positions of a partition are wanted than there are readers, they take turns.

Memory is bounded by a `LogShare`: a position is not read further while `_AHEAD` of its batches wait, or while all
positions together have read too much ahead. Everything here runs on the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from bridges.kafka.consume.batches import BatchCache, FetchedBatch, PartitionBuffer, Waiter
from bridges.kafka.consume.poll import Key
from bridges.kafka.consume.reader import Fetched, PartitionReader, ReaderOwner
from gateway.errors import RESOURCE_DELETED, AmqpError
from gateway.held.logs import LogShare

_AHEAD: Final = 2
"""Chunks that nobody has picked yet, above which a stream has read enough for now."""
_FAR_AHEAD: Final = 8
"""The same, above which its partition is paused in a client that others still need."""
_TURN: Final = 64
"""Chunks after which a stream makes room where others wait for their turn."""
_LOOK: Final = 0.25
"""Seconds after which a stream that read nothing makes room where others wait for their turn."""
_SPREAD: Final = 4
"""Readers that different topics are spread over before they share."""


class FetchPosition:
    """A position that moves forward."""

    __slots__ = ("at_end", "fresh", "log", "looked_at", "paused", "position", "reader", "served", "since", "streams")

    def __init__(
        self, streams: FetchScheduler, log: PartitionBuffer, position: int, reader: PartitionReader, since: int
    ) -> None:
        self.streams: Final = streams
        self.log: Final = log
        self.position = position
        self.reader: Final = reader
        self.since: Final = since
        self.fresh: Final[dict[FetchedBatch, None]] = {}
        self.served = 0
        self.looked_at = -1
        """What `served` was at the last look."""
        self.paused = False
        self.at_end = False

    @property
    def stalled(self) -> bool:
        """Read enough for now: nobody waits for what comes next."""
        enough = 0 if self.streams.crowded else _AHEAD
        return len(self.fresh) >= enough and self.position not in self.log.waiting

    def picked(self, chunk: FetchedBatch) -> None:
        """A link has come as far as this chunk."""
        if chunk in self.fresh:
            del self.fresh[chunk]
            self.streams.took(-chunk.size)
        self.streams.moved_on(self)


class FetchScheduler:
    """The readers of one cluster and what they read."""

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
        """`gone` is told of topics that were replaced, and tells their links."""
        self._new: Final = new_reader
        self._call_soon: Final = call_soon
        self._call_later: Final = call_later
        self._owner: Final = ReaderOwner(self._arrived, self._failed, trouble, self._ended)
        self._share = share
        self._cache: Final = BatchCache(share.cache)
        self._ahead = 0
        self._logs: Final[dict[Key, PartitionBuffer]] = {}
        self._streams: Final[dict[PartitionReader, dict[Key, FetchPosition]]] = {}
        self._ending: Final[set[PartitionReader]] = set()
        self._clients: Final[dict[PartitionReader, int]] = {}  # bytes that each may take
        self._turns: Final[set[Key]] = set()
        self._looking: Final[set[Key]] = set()
        self._tidying: Final[set[PartitionBuffer]] = set()
        self._gone: Final = gone

    def limit(self, share: LogShare) -> None:
        """Take no more than this from now on; clients that are there keep their queues until they end."""
        self._share = share
        self._cache.limit(share.cache)

    # -- links

    def join(self, topic: str, partition: int, member: Waiter) -> PartitionBuffer:
        """The log of a partition; `member` lives on it until `leave`."""
        key = (topic, partition)
        log = self._logs.get(key)
        if log is None:
            log = self._logs[key] = PartitionBuffer(topic, partition, self._cache, self._want)
        log.join(member)
        return log

    def leave(self, log: PartitionBuffer, member: Waiter, position: int) -> None:
        """`member` is gone; with the last one goes all that was kept for them."""
        log.leave(member, position)
        if not log.members and self._logs.get(log.key) is log:
            for stream in self._of(log):
                self._close(stream)
            log.clear()
            del self._logs[log.key]
            self._turns.discard(log.key)
            return
        self._tidy_soon(log)
        if log.key in self._turns:
            self._next_turn(log)

    def truncate(self, topic: str, lows: Mapping[int, int]) -> None:
        """Where the partitions of a topic begin now: nothing before is kept."""
        for partition, low in lows.items():
            log = self._logs.get((topic, partition))
            if log is not None:
                log.truncate(low)

    def kept(self, topic: str) -> list[int]:
        """The partitions of a topic of which something is kept."""
        return [log.partition for log in self._logs.values() if log.topic == topic and log.chunks]

    @property
    def readers(self) -> list[PartitionReader]:
        """The Kafka clients at work."""
        return [*self._streams, *self._ending]

    def states(self) -> dict[str, float]:
        """What is read and kept now, for metrics."""
        return {
            "readers": len(self._streams) + len(self._ending),
            "streams": sum(map(len, self._streams.values())),
            "turns": len(self._turns),
            "client_bytes": sum(self._clients.values()),
            "ahead_bytes": self._ahead,
            "cached_bytes": self._cache.size,
            "cached_chunks": sum(log.chunks for log in self._logs.values()),
        }

    @property
    def held(self) -> int:
        """Bytes of all of it."""
        return self._cache.size + self._ahead + sum(self._clients.values())

    def _of(self, log: PartitionBuffer) -> list[FetchPosition]:
        return [streams[log.key] for streams in self._streams.values() if log.key in streams]

    # -- who reads

    def _want(self, log: PartitionBuffer, position: int) -> None:
        self._tidy_soon(log)
        for stream in self._of(log):
            if stream.position == position:
                self.moved_on(stream)
                return
        reader = self._reader_for(log)
        if reader is not None:
            self._begin(log, position, reader)
            return
        spare = next((stream for stream in self._of(log) if stream.at_end), None)
        if spare is None or spare.position in log.waiting:
            self._in_turn(log)
        if spare is not None:
            self._close(spare)
            self._begin(log, position, spare.reader)

    def _tidy_soon(self, log: PartitionBuffer) -> None:
        """Somebody has moved on or left: what was read for him may be of no more use."""
        streams = self._of(log)
        if log not in self._tidying and (len(streams) > 1 or any(len(each.fresh) >= _AHEAD for each in streams)):
            self._tidying.add(log)
            self._call_soon(self._tidy, log)

    def _tidy(self, log: PartitionBuffer) -> None:
        """What every link has passed, on chunks of another stream or by leaving, nobody picks: it must stop no stream.

        A stream that is behind them all would never read on, nor end.
        """
        self._tidying.discard(log)
        if self._logs.get(log.key) is not log:
            return
        behind, before = log.behind, self._of(log)
        for stream in before:
            if stream.position < behind:
                self._close(stream)
            else:
                self._let_go(stream, behind)
        if log.key in self._turns and len(self._of(log)) < len(before):
            self._next_turn(log)

    def _let_go(self, stream: FetchPosition, end: int) -> None:
        """Chunks up to `end` are the cache's, to keep or not."""
        for chunk in [chunk for chunk in stream.fresh if chunk.end <= end]:
            chunk.source = None
            self._cache.use(chunk)
            stream.picked(chunk)

    def _in_turn(self, log: PartitionBuffer) -> None:
        """Somebody waits for a client: look now and then who makes no use of his."""
        self._turns.add(log.key)
        if log.key not in self._looking:
            self._looking.add(log.key)
            self._call_later(_LOOK, self._look, log)

    def _look(self, log: PartitionBuffer) -> None:
        """A link that is out of credit for a moment keeps its stream: to change places takes a client a while."""
        self._looking.discard(log.key)
        if log.key not in self._turns or self._logs.get(log.key) is not log:
            return
        for stream in self._of(log):
            if stream.looked_at == stream.served:
                self._close(stream)
                log.back(stream.position)
            stream.looked_at = stream.served
        self._next_turn(log)

    def _reader_for(self, log: PartitionBuffer) -> PartitionReader | None:
        free = [(reader, streams) for reader, streams in self._streams.items() if log.key not in streams]
        same = [reader for reader, streams in free if any(topic == log.topic for topic, _ in streams)]
        if same:
            return min(same, key=lambda reader: len(self._streams[reader]))
        empty = [reader for reader, streams in free if not streams]
        if empty:
            return empty[0]
        most = self._share.readers
        if len(self._streams) < (most if not free else min(most, _SPREAD)):
            return self._new_reader()
        return min(free, key=lambda item: len(item[1]))[0] if free else None

    def _new_reader(self) -> PartitionReader:
        reader = self._new(self._owner)
        self._streams[reader], self._clients[reader] = {}, self._share.client
        reader.start()
        return reader

    def _begin(self, log: PartitionBuffer, position: int, reader: PartitionReader) -> None:
        since = reader.add(log.key, position)
        self._streams[reader][log.key] = FetchPosition(self, log, position, reader, since)
        self._gate(reader)

    def _close(self, stream: FetchPosition) -> None:
        streams = self._streams.get(stream.reader)
        if streams is None or streams.get(stream.log.key) is not stream:
            return
        del streams[stream.log.key]
        self._let_go(stream, stream.position)
        stream.reader.remove(stream.log.key)
        if streams:
            self._gate(stream.reader)
        else:
            self._call_soon(self._end_if_idle, stream.reader)

    def _end_if_idle(self, reader: PartitionReader) -> None:
        if self._streams.get(reader) == {}:
            del self._streams[reader]
            self._ending.add(reader)
            reader.stop()

    def _ended(self, reader: PartitionReader) -> None:
        """On the loop: the thread is over, asked or not; if not, others read on for who is left."""
        self._ending.discard(reader)
        self._clients.pop(reader, None)
        for stream in list(self._streams.pop(reader, {}).values()):
            for chunk in stream.fresh:
                chunk.source = None
                self.took(-chunk.size)
            stream.fresh.clear()
            self._call_later(_LOOK, self._read_on, stream.log)

    def _read_on(self, log: PartitionBuffer) -> None:
        if self._logs.get(log.key) is log:
            self._next_turn(log)

    # -- flow

    @property
    def crowded(self) -> bool:
        """All together have read so much that nobody has picked that each has to make do with less."""
        return self._ahead > self._share.ahead

    def took(self, size: int) -> None:
        """More bytes were read ahead, or fewer are left of them; when there is room again, all may read on."""
        crowded = self.crowded
        self._ahead += size
        if crowded and not self.crowded:
            self._call_soon(self._all_move_on)

    def _all_move_on(self) -> None:
        for stream in [stream for streams in self._streams.values() for stream in streams.values()]:
            self.moved_on(stream)

    def moved_on(self, stream: FetchPosition) -> None:
        """Chunks were picked, or somebody waits: read on?"""
        if stream.paused and not stream.stalled:
            stream.paused = False
            stream.reader.pause(stream.log.key, False)
        self._gate(stream.reader)

    def _gate(self, reader: PartitionReader) -> None:
        """A client is asked for records while one of its streams wants some."""
        streams = self._streams.get(reader)
        if streams is None:
            return
        reader.gate(closed=all(stream.stalled for stream in streams.values()))
        if len(streams) > 1:
            for key, stream in streams.items():
                if not stream.paused and (len(stream.fresh) >= _FAR_AHEAD or self.crowded) and stream.stalled:
                    stream.paused = True
                    reader.pause(key, True)

    # -- from the readers

    def _arrived(self, reader: PartitionReader, fetched: Fetched) -> None:
        streams = self._streams.get(reader)
        if streams is None:
            return
        for key, messages in fetched.records.items():
            stream = streams.get(key)
            if stream is not None and stream.since <= fetched.serial:
                self._take(stream, messages[-1].offset() + 1, messages)
        for key, end in fetched.ends.items():
            stream = streams.get(key)
            if stream is not None and stream.since <= fetched.serial:
                self._at_end(stream, end)
        for key, low in fetched.lost.items():
            stream = streams.get(key)
            if stream is not None and stream.since <= fetched.serial:
                position, stream.position = stream.position, low
                stream.log.moved(position, low)
        self._gate(reader)

    def _take(self, stream: FetchPosition, end: int, messages: Sequence[Any]) -> None:
        log, position = stream.log, stream.position
        chunk = FetchedBatch(log, position, end, messages, stream)
        stream.fresh[chunk] = None
        self.took(chunk.size)
        stream.at_end = False
        stream.position = end
        stream.served += 1
        log.add(chunk)
        self._make_room(stream)

    def _at_end(self, stream: FetchPosition, end: int) -> None:
        if end > stream.position:  # what lies before the end are no records: transactions' marks
            self._take(stream, end, [])
        stream.at_end = True
        self._make_room(stream)

    def _make_room(self, stream: FetchPosition) -> None:
        """End a stream that has met another or what another has left, or whose turn is over."""
        log, position = stream.log, stream.position
        twin = next((each for each in self._of(log) if each is not stream and each.position == position), None)
        doubled = log.find(position) is not None and position not in log.waiting
        over = log.key in self._turns and (stream.served >= _TURN or stream.at_end)
        if over or doubled or twin is not None:
            self._close(stream)
            log.back(position)
            if twin is not None:
                self.moved_on(twin)  # it reads for those who wait here, too
            self._next_turn(log)

    def _next_turn(self, log: PartitionBuffer) -> None:
        self._turns.discard(log.key)
        read = {stream.position for stream in self._of(log)}
        for position in [at for at in log.waiting if at not in read]:
            self._want(log, position)

    def _failed(self, topic: str | None, error: AmqpError) -> None:
        """Kafka will not let us read `topic` (None: anything), or it is not the one it was."""
        if topic is not None and error.condition == RESOURCE_DELETED:
            self._gone(topic)
            return
        for log in [log for log in self._logs.values() if topic in (None, log.topic)]:
            for member in list(log.members):
                member.failed(error)

    def stop(self) -> Iterable[PartitionReader]:
        """Ask all readers to end."""
        readers = self.readers
        for reader in readers:
            reader.stop()
        return readers
