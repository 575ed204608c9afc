"""One message filter, evaluated on Kafka records (FX 2-5). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from bridges.kafka.consume.filters.access import (
    IN_HEADERS,
    MESSAGE,
    STORED,
    EventAccess,
    PlainAccess,
    Written,
    WrittenAccess,
    changed_source,
    plain_source,
    written_source,
)
from bridges.kafka.consume.filters.header_screen import screen
from bridges.kafka.records.envelope import Header
from bridges.kafka.records.record import KafkaRecord
from gateway.amqp.message.sections import walk
from gateway.errors import AmqpError
from gateway.filters.evaluate.compile import compile_filter
from gateway.filters.evaluate.compile import sections_of as sections_named
from gateway.filters.index.text_tests import text_tests
from gateway.filters.position.event_log import beyond_position, hint
from gateway.filters.position.event_stream import LogPosition, Start
from gateway.filters.predicate import And, Predicate

_ANYWHERE: Final = LogPosition(Start.EARLIEST)


class RecordFilter:
    """A predicate that is evaluated on records of every kind."""

    def __init__(self, predicate: Predicate) -> None:
        self.predicate: Final = predicate
        named = sections_named(predicate)
        self._whole: Final = compile_filter(predicate, MESSAGE)
        self._screen: Final = screen(predicate)
        self.text_tests: Final = text_tests(And(beyond_position(predicate)))
        """What C code evaluates on whole messages, beside the `position`; None: it cannot."""
        position = hint(predicate)
        self.position: Final = None if position == _ANYWHERE else position
        """The bounds of offsets and times; None: there are none."""
        self._written: Final = compile_filter(predicate, WrittenAccess()) if named <= STORED else None
        self._plain: Final = compile_filter(predicate, PlainAccess()) if named <= IN_HEADERS else None
        self._event: Final = compile_filter(predicate, EventAccess()) if named <= IN_HEADERS else None

    def candidates(self, records: Sequence[KafkaRecord]) -> list[KafkaRecord]:
        """The records whose encoded message must be evaluated; the others do not match."""
        may_match = self.may_match
        return [record for record in self.screened(records) if may_match(record) is not False]

    def screened(self, records: Sequence[KafkaRecord]) -> Sequence[KafkaRecord]:
        """The records that have a header which every matching one has."""
        return records if self._screen is None else self._screen.passed(records)

    def may_match(self, record: KafkaRecord) -> bool | None:
        """Whether the record matches, from its headers alone; None: its encoded message must be evaluated."""
        if self._written is None:  # then no other kind of record has the fields either
            return None
        headers = record.headers()
        if not headers:
            return self._plain(({}, record)) if self._plain is not None else None
        written = written_source(headers, record)
        if written is not None:
            return self._written_matches(headers, written)
        if self._plain is None or self._event is None:
            return None
        found = plain_source(headers, record)
        if found is None:
            return None
        return (self._event if found[1] else self._plain)(found[0])

    def _written_matches(self, headers: list[Header], source: Written) -> bool | None:
        """Whether a record that the gateway wrote matches; None: it may, by its stored sections or by its headers.

        Which of the two count depends on the digest, which is checked when the record is encoded.
        """
        try:
            if self._written is None or self._written(source):
                return None
        except AmqpError:
            return None
        if self._plain is None or self._event is None:
            return False
        changed = changed_source(headers, source[-1])
        return None if changed is None or (self._event if changed[1] else self._plain)(changed[0]) else False

    def matches(self, data: bytes) -> bool:
        """Whether an encoded message matches; False if it cannot be decoded."""
        try:
            return self._whole((data, walk(data)))
        except AmqpError:
            return False
