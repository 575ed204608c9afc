"""Hands records in columns to a client of a replay, by C code or one by one, and waits for their reports."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Producer

from bridges.kafka.produce import _produce
from bridges.kafka.produce.record_columns import OutgoingColumns

_PATIENCE: Final = 120.0
"""Seconds for the records of a transaction: more than librdkafka tries to deliver one."""


class RecordsFailed(Exception):
    """A record was not written, or the transaction ended; `code` is librdkafka's."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(error.str())
        self.error: Final = error


class ColumnSender(Protocol):
    """Hands columns of records to a client and waits for their reports. Raises `RecordsFailed`."""

    def send(self, topic: str, records: OutgoingColumns) -> None: ...
    def settle(self) -> None: ...

    def forget(self) -> None:
        """Take the reports of an aborted transaction."""


class NativeSender:
    """Hands whole columns to C code."""

    def __init__(self, producer: Producer) -> None:
        self._outbox: Final = _produce.Outbox(producer)

    def send(self, topic: str, records: OutgoingColumns) -> None:
        """See `ColumnSender`, as below."""
        row = 0
        while row < records.size:
            row, code = self._outbox.put_columns(topic, records, row)
            if code not in (0, KafkaError._QUEUE_FULL):
                raise RecordsFailed(KafkaError(code))
            self._reported(50 if code else 0)

    def settle(self) -> None:
        deadline = time.monotonic() + _PATIENCE
        while self._reported(50):
            if time.monotonic() > deadline:
                raise RecordsFailed(KafkaError(KafkaError._MSG_TIMED_OUT))

    def forget(self) -> None:
        while self._outbox.settle(50)[0]:
            pass  # they were purged, so each is reported soon

    def _reported(self, milliseconds: int) -> int:
        left, failed, _ = self._outbox.settle(milliseconds)
        if failed:
            raise RecordsFailed(KafkaError(failed))
        return left


class FallbackSender:
    """Calls a client for each record."""

    def __init__(self, producer: Producer) -> None:
        self._producer: Final = producer
        self._failed: list[KafkaError] = []

    def send(self, topic: str, records: OutgoingColumns) -> None:
        """See `ColumnSender`, as below."""
        for arguments in _arguments(records):
            while True:
                try:
                    self._producer.produce(topic, on_delivery=self._report, **arguments)  # type: ignore[arg-type]
                    break
                except BufferError:
                    self._producer.poll(0.05)
            self._producer.poll(0)

    def settle(self) -> None:
        left = self._flush()
        if self._failed or left:
            failed, self._failed = self._failed, []
            raise RecordsFailed((failed or [KafkaError(KafkaError._MSG_TIMED_OUT)])[0])

    def forget(self) -> None:
        with suppress(RecordsFailed):
            self._flush()
        self._failed = []

    def _flush(self) -> int:
        """The number of records that have no report yet."""
        try:
            return self._producer.flush(_PATIENCE)
        except SystemError as raised:  # the client raises a fatal error while it calls back, or loses it
            if isinstance(raised.__cause__, KafkaException):
                raise raised.__cause__ from None
            raise RecordsFailed(KafkaError(KafkaError._PURGE_QUEUE)) from None  # a commit says which error that was

    def _report(self, error: KafkaError | None, message: object) -> None:
        if error is not None:
            self._failed.append(error)


def _arguments(records: OutgoingColumns) -> Iterator[dict[str, object]]:
    for partition, time_ms, key, value, headers in records.rows():
        found: dict[str, object] = {"partition": partition, "timestamp": time_ms, "key": key, "value": value}
        yield {**found, "headers": headers} if headers else found
