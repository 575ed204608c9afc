"""Which records of a partition a link receives (ES 5.2); links with equal selections share the result. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from bridges.kafka.consume.filters.index import RecordFilterIndex
from bridges.kafka.consume.filters.record_filter import RecordFilter
from bridges.kafka.consume.protocols import Batch, FilterSelection, Selection
from bridges.kafka.records.event import EncodedEvent
from gateway.amqp.message._sections import matching_events
from gateway.amqp.message.hop import ROUTING, only
from gateway.amqp.message.sections import splice
from gateway.amqp.message.sections import walk as sections_of
from gateway.filters.index.text_tests import TextTest
from gateway.filters.parse.filter_set import FilterSet
from gateway.filters.position.event_log import beyond_position
from gateway.filters.position.event_stream import LogPosition, offset_symbol
from gateway.filters.predicate import Latest, Literal, Predicate, bind, walk


class AfterPosition(NamedTuple):
    """Events from an offset on with a later timestamp; timestamps need not follow the order of the log (ES-5.2-5)."""

    position: LogPosition

    def select(self, batch: Batch) -> list[EncodedEvent]:
        """See `Selection`."""
        matches = self.position.matches
        return [batch.event(record) for record in batch.records if matches(record.offset(), record.timestamp()[1])]

    def shared_key(self) -> None:
        """See `Selection`. Comparing two numbers costs less than sharing the result."""


class Matching:
    """Events that match a predicate; records that do not match are never encoded."""

    __slots__ = ("__weakref__", "_dense", "filter")

    def __init__(self, predicate: Predicate) -> None:
        self.filter: Final = RecordFilter(predicate)
        self._dense = False
        """Whether most records of the last batch matched."""

    def select(self, batch: Batch) -> list[EncodedEvent]:
        """See `Selection`."""
        if self.filter.text_tests is not None:
            return self._by_texts(batch, self.filter.text_tests)
        matches = self.filter.matches
        events = map(batch.event, self.filter.candidates(batch.records))
        return [event for event in events if matches(event[0])]

    def _by_texts(self, batch: Batch, tests: tuple[TextTest, ...]) -> list[EncodedEvent]:
        """Records are not screened first while most of them match."""
        if not self._dense:
            records = self.filter.screened(batch.records)
            self._dense = 2 * len(records) > len(batch.records)
        events = batch.events() if self._dense else [*map(batch.event, records)]
        found, position = matching_events(events, tests, self.filter.matches), self.filter.position
        self._dense = self._dense and 2 * len(found) > len(events)
        return found if position is None else [each for each in found if position.matches(each.offset, each.time)]

    def shared_key(self) -> FilterSelection:
        """See `Selection`."""
        return self


class SharedFilterPass:
    """Evaluates the different filters of links on one partition together: each record is read once for all."""

    def __init__(self, members: Iterable[FilterSelection]) -> None:
        self._members: Final[dict[FilterSelection, None]] = {}
        self._filters: Final[RecordFilterIndex[FilterSelection]] = RecordFilterIndex()
        for member in members:
            self.add(member)

    def add(self, member: FilterSelection) -> None:
        """Add a filter."""
        self._members[member] = None
        self._filters.add(member, member.filter)

    def remove(self, member: FilterSelection) -> None:
        """Remove a filter."""
        del self._members[member]
        self._filters.remove(member)

    def select(self, batch: Batch) -> dict[Selection, list[EncodedEvent]]:
        """The events of `batch` that each filter selects."""
        found: dict[Selection, list[EncodedEvent]] = {member: [] for member in self._members}
        for record in batch.records:
            candidates = self._filters.candidates(record)
            if candidates.found or candidates.unanswered:
                event = batch.event(record)
                for member in self._filters.matching(event[0], candidates):
                    found[member].append(event)
        return found


class WithoutAnnotations(NamedTuple):
    """The events of another selection without the annotations of the log (ledger A1)."""

    inner: Selection | None

    def select(self, batch: Batch) -> list[EncodedEvent]:
        """See `Selection`. Delivery annotations of response routing are retained."""
        events = batch.selected(self.inner)
        strip = _keep_routing if batch.routed else _drop_annotations
        return [event._replace(data=strip(event.data)) for event in events]

    def shared_key(self) -> FilterSelection | None:
        """See `Selection`."""
        return None if self.inner is None else self.inner.shared_key()


def _drop_annotations(data: bytes) -> bytes:
    return splice(data, sections_of(data), da=None)


def _keep_routing(data: bytes) -> bytes:
    return only(data, ROUTING)


_selections: Final[WeakValueDictionary[Predicate, Matching]] = WeakValueDictionary()
"""One selection for all equal predicates, so that batches can compare selections by identity."""


def matching(predicate: Predicate) -> Matching:
    """The selection for a predicate."""
    found = _selections.get(predicate)
    if found is None:
        found = _selections[predicate] = Matching(predicate)
    return found


class Selections:
    """The selection for each partition of a link: `@latest` is a different offset in each."""

    def __init__(
        self,
        filters: FilterSet,
        starts: Mapping[int, int],
        ends: Mapping[int, int],
        *,
        bound: bool,
        annotated: bool = True,
    ) -> None:
        """`ends`: of the partitions when the link attached; later partitions are read from their beginning."""
        self._annotated: Final = annotated
        self._filters: Final = filters
        self._ends: Final = ends
        self._names_latest: Final = Literal(Latest.LATEST) in walk(filters.predicate)
        self._position_only: Final = not beyond_position(filters.predicate)
        self._past_start: Final = bound and all(start >= filters.position.first_offset for start in starts.values())

    def of(self, partition: int) -> Selection | None:
        """See `PartitionSelections`."""
        found = self._selection(partition)
        return found if self._annotated else WithoutAnnotations(found)

    def _selection(self, partition: int) -> Selection | None:
        if self._position_only:
            position = self._filters.position
            rest = position._replace(first_offset=0) if self._past_start else position
            return AfterPosition(rest) if rest._replace(start=_EVERYTHING.start) != _EVERYTHING else None
        predicate = self._filters.predicate
        if self._names_latest:
            predicate = bind(predicate, offset_symbol(self._ends.get(partition, 0)))
        return matching(predicate)


_EVERYTHING: Final = LogPosition()
