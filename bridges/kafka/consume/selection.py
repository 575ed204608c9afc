"""Which records of a chunk a link wants (ES 5.2); links with the same selection share what was picked. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol
from weakref import WeakValueDictionary

from bridges.kafka.consume.record_access import RecordFilter
from bridges.kafka.consume.record_filters import RecordFilters
from gateway.amqp.message.hop import ROUTING, only
from gateway.amqp.message.sections import splice
from gateway.amqp.message.sections import walk as sections_of
from gateway.filters.parse.filter_set import FilterSet
from gateway.filters.position.event_log import beyond_position
from gateway.filters.position.event_stream import LogPosition, offset_symbol
from gateway.filters.predicate import Latest, Literal, Predicate, bind, walk

if TYPE_CHECKING:
    from bridges.kafka.consume.redelivery import EditedEvent


class SelectableBatch(Protocol):
    """Consecutive records of a partition (`batches.FetchedBatch`)."""

    @property
    def messages(self) -> Sequence[Any]: ...
    @property
    def routed(self) -> bool: ...
    def event(self, message: object) -> EditedEvent: ...
    def picked(self, selection: Selection | None) -> list[EditedEvent]: ...


class Selection(Hashable, Protocol):
    """Which records of a batch a link wants; links with equal selections share what is picked."""

    def pick(self, chunk: SelectableBatch) -> list[EditedEvent]: ...


class AfterPosition(NamedTuple):
    """Events from an offset on that have a later timestamp; time does not follow the order of the log (ES-5.2-5)."""

    position: LogPosition

    def pick(self, chunk: SelectableBatch) -> list[EditedEvent]:
        """The events of `chunk` that match, encoded."""
        matches = self.position.matches
        return [chunk.event(found) for found in chunk.messages if matches(found.offset(), found.timestamp()[1])]


class Matching:
    """Events that a predicate is true of; what does not match is never encoded."""

    __slots__ = ("__weakref__", "filter")

    def __init__(self, predicate: Predicate) -> None:
        self.filter: Final = RecordFilter(predicate)

    def pick(self, chunk: SelectableBatch) -> list[EditedEvent]:
        """The events of `chunk` that match, encoded."""
        matches = self.filter.matches
        events = map(chunk.event, self.filter.candidates(chunk.messages))
        return [event for event in events if matches(event[0])]


class SharedFilterPass:
    """Different filters of links on one partition: a record is looked at once for all of them."""

    def __init__(self, members: Iterable[Matching]) -> None:
        self._members: Final[dict[Matching, None]] = {}
        self._filters: Final[RecordFilters[Matching]] = RecordFilters()
        for member in members:
            self.add(member)

    def add(self, member: Matching) -> None:
        """Look for what this one wants, too."""
        self._members[member] = None
        self._filters.add(member, member.filter)

    def remove(self, member: Matching) -> None:
        """Look no more for what this one wants."""
        del self._members[member]
        self._filters.remove(member)

    def pick(self, chunk: SelectableBatch) -> dict[Matching, list[EditedEvent]]:
        """What each of them wants of `chunk`."""
        found: dict[Matching, list[EditedEvent]] = {member: [] for member in self._members}
        for message in chunk.messages:
            wanted = self._filters.candidates(message)
            if wanted.found or wanted.unanswered:
                event = chunk.event(message)
                for member in self._filters.matching(event[0], wanted):
                    found[member].append(event)
        return found


class WithoutAnnotations(NamedTuple):
    """The events of another selection without what the log says of them (ledger A1)."""

    inner: Selection | None

    def pick(self, chunk: SelectableBatch) -> list[EditedEvent]:
        """The events of `chunk`, without delivery annotations but those of response routing."""
        events = chunk.picked(self.inner)
        shorn = _routing_alone if chunk.routed else _bare
        return [event._replace(data=shorn(event.data)) for event in events]


def _bare(data: bytes) -> bytes:
    return splice(data, sections_of(data), da=None)


def _routing_alone(data: bytes) -> bytes:
    return only(data, ROUTING)


_known: Final[WeakValueDictionary[Predicate, Matching]] = WeakValueDictionary()
"""Equal predicates are one selection, compared by identity for every chunk."""


def matching(predicate: Predicate) -> Matching:
    """The selection of a predicate."""
    found = _known.get(predicate)
    if found is None:
        found = _known[predicate] = Matching(predicate)
    return found


class Selections:
    """What a link wants, for each of its partitions: `@latest` is another offset in each."""

    def __init__(
        self,
        wanted: FilterSet,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        *,
        bound: bool,
        annotated: bool = True,
    ) -> None:
        """`ends` are those of the partitions when the link attached; later ones are read from their beginning."""
        self._annotated: Final = annotated
        self._wanted: Final = wanted
        self._ends: Final = ends
        self._moving: Final = Literal(Latest.LATEST) in walk(wanted.predicate)
        self._simple: Final = not beyond_position(wanted.predicate)
        self._begun: Final = bound and all(start >= wanted.position.first_offset for start in starts.values())

    def of(self, partition: int) -> Selection | None:
        """None: everything."""
        found = self._matching(partition)
        return found if self._annotated else WithoutAnnotations(found)

    def _matching(self, partition: int) -> Selection | None:
        if self._simple:
            position = self._wanted.position
            rest = position._replace(first_offset=0) if self._begun else position
            return AfterPosition(rest) if rest._replace(start=_ANY.start) != _ANY else None
        predicate = self._wanted.predicate
        if self._moving:
            predicate = bind(predicate, offset_symbol(self._ends.get(partition, 0)))
        return matching(predicate)


_ANY: Final = LogPosition()
