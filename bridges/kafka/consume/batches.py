"""What was read of a partition and is still at hand, shared by all links on it (KM-16).

A chunk is a run of consecutive records. Links come with a position and pick what their filter wants of the chunk
that holds it; a record is encoded once, and only when the first link wants it. A position that nothing covers is
waited for. How chunks come into being is the business of `streams`. Pure: no Kafka client, no clock, no thread.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

from bridges.kafka.consume._fetch import Run
from bridges.kafka.consume.redelivery import EditedEvent
from bridges.kafka.consume.selection import Matching, Selection, SharedFilterPass, WithoutAnnotations
from bridges.kafka.records.fast_encode import EventEncoder
from bridges.kafka.records.ttl import ttl
from gateway.amqp.message.sections import DELIVERY_ANNOTATIONS
from gateway.errors import AmqpError

_OVERHEAD: Final = 512
"""What a record costs beside its value, roughly: the client's object, the encoded event's annotations."""
_ALONE: Final = 4
"""Chunks that are kept of a partition on which only one link lives."""
_NOWHERE: Final = 1 << 63
"""Before its first credit a link needs nothing that is read for others."""


class PartitionSelections(Protocol):
    """What a link wants, for each of its partitions; `Selections` is one."""

    def of(self, partition: int) -> Selection | None: ...


class BatchSource(Protocol):
    """The stream that read a chunk, and reads no further until chunks are picked."""

    def picked(self, chunk: FetchedBatch) -> None: ...


class Waiter(Protocol):
    """A link on a partition; it raises nothing, for others are told behind it."""

    def arrived(self, partition: int) -> None: ...
    def lost(self, partition: int, low: int) -> None: ...
    def failed(self, error: AmqpError) -> None: ...


class FetchedBatch:
    """Records from `start` up to, but not including, `end`; gaps of the log are inside."""

    __slots__ = ("_events", "_picks", "end", "log", "messages", "size", "source", "start", "timed")

    def __init__(
        self,
        log: PartitionBuffer,
        start: int,
        end: int,
        messages: Sequence[Any],
        source: BatchSource | None = None,
    ) -> None:
        self.log: Final = log
        self.start: Final = start
        self.end: Final = end
        self.messages: Final = messages
        self.size: Final = 2 * _bytes(messages) + _OVERHEAD * (len(messages) + 1)
        self.source = source
        self.timed = False
        """Some event encoded so far has a ttl."""
        self._events: list[EditedEvent] | None = None
        self._picks: dict[Selection, list[EditedEvent]] = {}

    @property
    def routed(self) -> bool:
        """Whether its events carry the annotations of response routing."""
        return self.log.encoder.routed

    def picked(self, selection: Selection | None) -> list[EditedEvent]:
        """The events that `selection` wants, in the order of the log; None wants all of them."""
        if selection is None:
            return self.events()
        if selection not in self._picks:
            self.log.pick(selection, self, self._picks)
        return self._picks[selection]

    def events(self) -> list[EditedEvent]:
        """All records, encoded."""
        if self._events is None:
            self._events, headed = self.log.encoder.events(self.messages, self.log.partition)
            self.timed = self.timed or any(map(_timed, headed))
        return self._events

    def count(self, start: int, end: int) -> int:
        """How many records lie from `start` up to `end`."""
        if start <= self.start and end >= self.end:
            return len(self.messages)
        first, last = (bisect_left(self.messages, at, key=_offset) for at in (start, end))
        return last - first

    def event(self, message: Any) -> EditedEvent:
        """One of the records, encoded."""
        event = self.log.encoder.event(message, self.log.partition)
        self.timed = self.timed or _timed(event.data)
        return event


def _bytes(messages: Sequence[Any]) -> int:
    """What records hold beside what any of them costs."""
    return messages.size if isinstance(messages, Run) else sum(map(len, messages))


def _offset(message: Any) -> int:
    offset: int = message.offset()
    return offset


def _timed(data: bytes) -> bool:
    return data[2] != DELIVERY_ANNOTATIONS and ttl(data) is not None  # it begins with a header


class BatchCache:
    """Chunks that were used, the latest used last, up to `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: Final[OrderedDict[FetchedBatch, None]] = OrderedDict()
        self.size = 0

    def use(self, chunk: FetchedBatch) -> None:
        """`chunk` was just picked from; others may have to go."""
        if chunk in self._chunks:
            self._chunks.move_to_end(chunk)
            return
        self._chunks[chunk] = None
        self.size += chunk.size
        self._make_room()

    def limit(self, limit: int) -> None:
        """Keep no more than this from now on."""
        self._limit = limit
        self._make_room()

    def _make_room(self) -> None:
        while self.size > self._limit and len(self._chunks) > 1:
            oldest, _ = self._chunks.popitem(last=False)
            self.size -= oldest.size
            oldest.log.forget(oldest)

    def drop(self, chunk: FetchedBatch) -> None:
        """`chunk` is of no use any more."""
        if chunk in self._chunks:
            del self._chunks[chunk]
            self.size -= chunk.size


class PartitionBuffer:
    """One partition: its chunks at hand, who lives on it, and who waits where."""

    __slots__ = (
        "_cache", "_chunks", "_starts", "_together", "_want", "_wanted", "encoder", "key", "members", "partition",
        "topic", "waiting",
    )  # fmt: skip

    def __init__(
        self, topic: str, partition: int, cache: BatchCache, want: Callable[[PartitionBuffer, int], None]
    ) -> None:
        self.topic: Final = topic
        self.partition: Final = partition
        self.key: Final = (topic, partition)
        self.encoder: Final = EventEncoder()
        self.members: Final[dict[Waiter, int]] = {}
        """Who lives here, and the position each came with last."""
        self.waiting: Final[dict[int, dict[Waiter, None]]] = {}
        self._wanted: Final[Counter[Any]] = Counter()
        self._together: SharedFilterPass | None = None
        self._cache: Final = cache
        self._want: Final = want
        self._starts: Final[list[int]] = []
        self._chunks: Final[dict[int, FetchedBatch]] = {}

    def join(self, waiter: Waiter) -> None:
        """`waiter` lives here until it leaves."""
        self.members[waiter] = _NOWHERE

    @property
    def behind(self) -> int:
        """What lies before is read for nobody: everyone has passed it."""
        return min(self.members.values(), default=_NOWHERE)

    def want(self, selection: Selection | None, change: int) -> None:
        """One link more, or less, has this selection."""
        if isinstance(selection, WithoutAnnotations):
            selection = selection.inner
        if isinstance(selection, Matching):
            before = selection in self._wanted
            self._wanted[selection] += change
            if self._wanted[selection] <= 0:
                del self._wanted[selection]
            self._look_for(selection, before)

    def _look_for(self, selection: Matching, before: bool) -> None:
        """A look for all of them is kept while there are several: a link comes or goes at its filter's own cost."""
        after = selection in self._wanted
        if self._together is None or before == after:
            return
        if len(self._wanted) <= 1:
            self._together = None
        elif after:
            self._together.add(selection)
        else:
            self._together.remove(selection)

    def pick(self, selection: Selection, chunk: FetchedBatch, picks: dict[Any, list[EditedEvent]]) -> None:
        """Fill `picks` with what `selection` wants, and with what others want where one look serves them all."""
        if selection not in self._wanted or len(self._wanted) == 1:
            picks[selection] = selection.pick(chunk)
            return
        if self._together is None:
            self._together = SharedFilterPass(self._wanted)
        picks.update(self._together.pick(chunk))

    def take(self, position: int, waiter: Waiter) -> FetchedBatch | None:
        """The chunk that holds `position`; None: `waiter` hears `arrived` when there is one."""
        self.members[waiter] = position
        chunk = self.find(position)
        if chunk is None:
            self.waiting.setdefault(position, {})[waiter] = None
            self._want(self, position)
            return None
        self._cache.use(chunk)
        if chunk.source is not None:
            source, chunk.source = chunk.source, None
            source.picked(chunk)
            if len(self.members) == 1:
                self._forget_behind(position)
        return chunk

    def _forget_behind(self, position: int) -> None:
        """Nobody else is here: what lies behind is let go while it still is in the processor's caches."""
        while len(self._starts) > _ALONE:
            oldest = self._chunks[self._starts[0]]
            if oldest.end > position or oldest.source is not None:
                return
            self._cache.drop(oldest)
            self.forget(oldest)

    @property
    def chunks(self) -> int:
        """How many are at hand."""
        return len(self._starts)

    def find(self, position: int) -> FetchedBatch | None:
        """The chunk at hand that holds `position`."""
        index = bisect_right(self._starts, position)
        chunk = self._chunks[self._starts[index - 1]] if index else None
        return chunk if chunk is not None and position < chunk.end else None

    def add(self, chunk: FetchedBatch) -> None:
        """Take in what was read, and tell who waits for it."""
        old = self._chunks.get(chunk.start)
        if old is None:
            insort(self._starts, chunk.start)
        elif old.source is not None:
            old.source.picked(old)
        else:
            self._cache.drop(old)
        self._chunks[chunk.start] = chunk
        for position in [at for at in self.waiting if chunk.start <= at < chunk.end]:
            for waiter in self.waiting.pop(position, {}):
                waiter.arrived(self.partition)

    def back(self, position: int) -> None:
        """Who waits here has had a turn: the others come first."""
        if position in self.waiting:
            self.waiting[position] = self.waiting.pop(position)

    def moved(self, position: int, low: int) -> None:
        """KM-8: what lay before `low` is gone; who waits at `position` or anywhere before goes on at `low`."""
        for at in [at for at in self.waiting if at == position or at < low]:
            for waiter in self.waiting.pop(at, {}):
                waiter.lost(self.partition, low)

    def forget(self, chunk: FetchedBatch) -> None:
        """The cache needs the room."""
        if self._chunks.get(chunk.start) is chunk:
            del self._chunks[chunk.start]
            del self._starts[bisect_right(self._starts, chunk.start) - 1]

    def truncate(self, low: int) -> None:
        """What lay before `low` was deleted from the log: it is not handed out any more.

        A link that was to read there asks Kafka, and hears that it is gone (KM-8).
        """
        for chunk in [self._chunks[start] for start in self._starts[: bisect_left(self._starts, low)]]:
            if chunk.source is not None:
                source, chunk.source = chunk.source, None
                source.picked(chunk)
            self._cache.drop(chunk)
            self.forget(chunk)

    def clear(self) -> None:
        """Nobody lives here any more."""
        for chunk in self._chunks.values():
            self._cache.drop(chunk)
        self._chunks.clear()
        self._starts.clear()
        self.waiting.clear()

    def leave(self, waiter: Waiter, position: int) -> None:
        """`waiter` is gone; `position` is where it may have waited."""
        self.members.pop(waiter, None)
        waiters = self.waiting.get(position)
        if waiters is not None:
            waiters.pop(waiter, None)
            if not waiters:
                del self.waiting[position]
