"""One message filter, evaluated on Kafka records (FX 2-5). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridges.kafka.consume.filters.access import (
    MESSAGE,
    SHOWN,
    STORED,
    EventAccess,
    PlainAccess,
    WrittenAccess,
    plain_source,
)
from bridges.kafka.consume.filters.header_screen import screen
from bridges.kafka.records.cloudevents import VERSION
from bridges.kafka.records.envelope import BARE, Header, sections_of
from bridges.kafka.records.record import KafkaRecord
from gateway.amqp.message.sections import walk
from gateway.errors import AmqpError
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.evaluate.compile import sections_of as sections_named
from gateway.filters.predicate import Predicate


class RecordFilter:
    """One predicate, evaluated on records of every kind."""

    def __init__(self, predicate: Predicate) -> None:
        self.predicate: Final = predicate
        named = sections_named(predicate)
        self._whole: Final = compile_filter(predicate, MESSAGE)
        self._screen: Final = screen(predicate)
        self._written: Final = compile_filter(predicate, WrittenAccess()) if named <= STORED else None
        self._plain: Final = compile_filter(predicate, PlainAccess()) if named <= SHOWN else None
        self._event: Final = compile_filter(predicate, EventAccess()) if named <= SHOWN else None

    def candidates(self, records: Sequence[KafkaRecord]) -> list[KafkaRecord]:
        """Those whose encoded message has to be evaluated; the others do not match."""
        may_match = self.may_match
        if self._screen is not None:
            records = self._screen.passed(records)
        return [record for record in records if may_match(record) is not False]

    def may_match(self, record: KafkaRecord) -> bool | None:
        """Whether the record matches, judged by its headers; None: evaluate its encoded message."""
        headers = record.headers()
        if not headers:
            return self._plain(({}, record)) if self._plain is not None else None
        if headers[-1][0] == BARE:
            return self._written_matches(headers, record)
        if self._plain is None or self._event is None:
            return None
        found = plain_source(headers, record)
        if found is None:
            return None
        return (self._event if found[1] else self._plain)(found[0])

    def _written_matches(self, headers: list[Header], record: KafkaRecord) -> bool | None:
        """Whether a record that the gateway wrote matches; None: it may, by what is stored or by its headers.

        Only the digest, which encoding checks, says which of the two counts.
        """
        if self._written is None:
            return None
        stored = sections_of(headers[-1][1])
        try:
            if self._written((stored, walk(stored), record)):
                return None
        except AmqpError:
            return None
        if self._plain is None or self._event is None:
            return False
        last = dict(headers)
        return None if (self._event if VERSION in last else self._plain)((last, record)) else False

    def matches(self, data: bytes) -> bool:
        """Whether an encoded message matches as it would be delivered; one that cannot be decoded does not."""
        try:
            return self._whole((data, walk(data)))
        except AmqpError:
            return False
