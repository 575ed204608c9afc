"""Many message filters, evaluated on one stream of Kafka records (FX 2-5). Pure."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from bridges.kafka.consume.filters.access import (
    IN_HEADERS,
    STORED,
    EventAccess,
    Plain,
    PlainAccess,
    Written,
    WrittenAccess,
    changed_source,
    plain_source,
    written_source,
)
from bridges.kafka.consume.filters.record_filter import RecordFilter
from bridges.kafka.records.envelope import Header
from bridges.kafka.records.record import KafkaRecord
from gateway.amqp.message.sections import walk
from gateway.errors import AmqpError
from gateway.filters.evaluate.access import Access, Encoded, MessageAccess
from gateway.filters.evaluate.compile import sections_of as sections_named
from gateway.filters.index import PredicateIndex
from gateway.filters.predicate import MessageSection, Predicate

K = TypeVar("K", bound=Hashable)
S = TypeVar("S")
_FEW: Final = 4
"""Up to this number, candidates are evaluated one after the other."""


class Candidates(NamedTuple, Generic[K]):
    """The predicates that must be evaluated on the encoded message; the others do not match."""

    found: Collection[K]
    """Predicates that are true for the record's headers."""
    unanswered: Mapping[K, object]
    """Predicates that need fields which the headers do not have."""


class RecordFilterIndex(Generic[K]):
    """Many predicates by keys; the fields of a record are read once for all of them."""

    def __init__(self) -> None:
        self._filters: Final[dict[K, RecordFilter]] = {}
        self._written: Final = _KindIndex[K, Written](WrittenAccess(), STORED)
        self._plain: Final = _KindIndex[K, Plain](PlainAccess(), IN_HEADERS)
        self._event: Final = _KindIndex[K, Plain](EventAccess(), IN_HEADERS)
        self._whole: Final[PredicateIndex[K, Encoded]] = PredicateIndex(MessageAccess())

    def add(self, key: K, added: RecordFilter) -> None:
        """Add a filter under a key."""
        self._filters[key] = added
        self._whole.add(key, added.predicate)
        self._written.add(key, added.predicate)
        self._plain.add(key, added.predicate)
        self._event.add(key, added.predicate)

    def remove(self, key: K) -> None:
        """Remove the filter with this key."""
        del self._filters[key]
        self._whole.remove(key)
        self._written.remove(key)
        self._plain.remove(key)
        self._event.remove(key)

    def candidates(self, record: KafkaRecord) -> Candidates[K]:
        """The keys of the filters that the record may match."""
        headers = record.headers()
        if not headers:
            return self._plain.ask(({}, record))
        written = written_source(headers, record)
        if written is not None:
            return self._of_written(headers, written)
        found = plain_source(headers, record)
        if found is None:
            return Candidates((), self._filters)
        return (self._event if found[1] else self._plain).ask(found[0])

    def _of_written(self, headers: list[Header], source: Written) -> Candidates[K]:
        try:
            found = self._written.ask(source)
        except AmqpError:
            return Candidates((), self._filters)
        changed = changed_source(headers, source[-1])
        if changed is None:
            return Candidates((), self._filters)
        visible = (self._event if changed[1] else self._plain).ask(changed[0]).found
        return found._replace(found={*found.found, *visible}) if visible else found

    def matching(self, data: bytes, candidates: Candidates[K]) -> list[K]:
        """The candidates that match the encoded message; none if it cannot be decoded."""
        found, unanswered = candidates
        if not unanswered and len(found) <= _FEW:
            return [key for key in found if self._filters[key].matches(data)]
        try:
            matching = self._whole.matching((data, walk(data)))
        except AmqpError:
            return []
        return [key for key in matching if key in unanswered or key in found]


class _KindIndex(Generic[K, S]):
    """The predicates that can be evaluated on one kind of record, and the keys of the others."""

    def __init__(self, access: Access[S], sections: frozenset[MessageSection]) -> None:
        self._sections: Final = sections
        self._index: Final[PredicateIndex[K, S]] = PredicateIndex(access)
        self._others: Final[dict[K, None]] = {}

    def add(self, key: K, predicate: Predicate) -> None:
        if sections_named(predicate) <= self._sections:
            self._index.add(key, predicate)
        else:
            self._others[key] = None

    def remove(self, key: K) -> None:
        if key in self._others:
            del self._others[key]
        else:
            self._index.remove(key)

    def ask(self, source: S) -> Candidates[K]:
        """The predicates that are true, and those that cannot be evaluated on this kind of record."""
        return Candidates(self._index.matching(source) if len(self._index) else (), self._others)
