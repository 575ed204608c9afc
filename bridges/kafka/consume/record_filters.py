"""Many filters over one stream of Kafka records: what may match by its headers, and what matches as it is delivered."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from bridges.kafka.consume.record_access import (
    SHOWN,
    STORED,
    EventAccess,
    PlainAccess,
    RecordFilter,
    WrittenAccess,
    plain_source,
)
from bridges.kafka.records.cloudevents import VERSION
from bridges.kafka.records.envelope import BARE, sections_of
from gateway.amqp.message.sections import walk
from gateway.errors import AmqpError
from gateway.filters.evaluate.access import Access, Encoded, MessageAccess
from gateway.filters.evaluate.compile import sections_of as sections_named
from gateway.filters.index import PredicateIndex
from gateway.filters.predicate import MessageSection, Predicate

K = TypeVar("K", bound=Hashable)
_FEW: Final = 4
"""Up to so many filters are asked one after the other."""


class Candidates(NamedTuple, Generic[K]):
    """Of many predicates those whose encoded message has to be asked; the others do not match."""

    found: Collection[K]
    """Those that are true, as far as the record's headers say."""
    unanswered: Mapping[K, Any]
    """Those that the headers of such a record cannot answer."""


class RecordFilters(Generic[K]):
    """Many predicates over one stream of records, which come and go: each record's fields are read once."""

    def __init__(self) -> None:
        self._filters: Final[dict[K, RecordFilter]] = {}
        self._written: Final = _FilterAnswers[K](WrittenAccess(), STORED)
        self._plain: Final = _FilterAnswers[K](PlainAccess(), SHOWN)
        self._event: Final = _FilterAnswers[K](EventAccess(), SHOWN)
        self._whole: Final[PredicateIndex[K, Encoded]] = PredicateIndex(MessageAccess())

    def add(self, key: K, one: RecordFilter) -> None:
        """Ask this predicate, too."""
        self._filters[key] = one
        self._whole.add(key, one.predicate)
        for answers in (self._written, self._plain, self._event):
            answers.add(key, one.predicate)

    def remove(self, key: K) -> None:
        """Ask the predicate with this key no more."""
        del self._filters[key]
        self._whole.remove(key)
        for answers in (self._written, self._plain, self._event):
            answers.remove(key)

    def candidates(self, message: Any) -> Candidates[K]:
        """What has to be asked of the encoded message; nothing where no predicate may match."""
        headers = message.headers()
        if not headers:
            return self._plain.ask(({}, message))
        if headers[-1][0] == BARE:
            return self._of_ours(headers, message)
        found = plain_source(headers, message)
        if found is None:
            return Candidates((), self._filters)
        return (self._event if found[1] else self._plain).ask(found[0])

    def _of_ours(self, headers: list[Any], message: Any) -> Candidates[K]:
        stored = sections_of(headers[-1][1])
        try:
            found = self._written.ask((stored, walk(stored), message))
        except AmqpError:
            return Candidates((), self._filters)
        last = dict(headers)
        shown = (self._event if VERSION in last else self._plain).ask((last, message)).found
        return found._replace(found={*found.found, *shown}) if shown else found

    def matching(self, data: bytes, candidates: Candidates[K]) -> list[K]:
        """The candidates whose predicates match the message as it would be delivered."""
        found, unanswered = candidates
        if not unanswered and len(found) <= _FEW:
            return [key for key in found if self._filters[key].matches(data)]
        try:
            matching = self._whole.matching((data, walk(data)))
        except AmqpError:
            return []
        return [key for key in matching if key in unanswered or key in found]


class _FilterAnswers(Generic[K]):
    """The predicates that one kind of record can answer, and the keys of the others."""

    def __init__(self, access: Access[Any], sections: frozenset[MessageSection]) -> None:
        self._sections: Final = sections
        self._index: Final[PredicateIndex[K, Any]] = PredicateIndex(access)
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

    def ask(self, source: Any) -> Candidates[K]:
        """Those that are true, and those that this kind of record cannot answer."""
        return Candidates(self._index.matching(source) if len(self._index) else (), self._others)
