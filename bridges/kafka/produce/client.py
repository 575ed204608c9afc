"""Kafka clients that produce records, and the owners of records that are not reported yet (decision 18).

If the C code supports the version of the client, `_produce` takes all available reports in one call, without an object
for each. Otherwise the client's own `produce` and `poll` are used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias, cast

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bridges.kafka.common.librdkafka import ClientSettings, bind, calls_back
from bridges.kafka.produce import _produce
from bridges.kafka.records import digest
from gateway.amqp.link.handlers import Transfer
from gateway.amqp.proton._batch import SECOND_BOUNDS

_FUNCTIONS: Final = (
    "rd_kafka_opaque",
    "rd_kafka_queue_get_main",
    "rd_kafka_queue_destroy",
    "rd_kafka_queue_poll",
    "rd_kafka_event_type",
    "rd_kafka_event_message_next",
    "rd_kafka_event_destroy",
    "rd_kafka_event_error",
    "rd_kafka_event_error_string",
    "rd_kafka_event_error_is_fatal",
    "rd_kafka_fatal_error",
    "rd_kafka_topic_new",
    "rd_kafka_topic_destroy",
    "rd_kafka_producev",
    "rd_kafka_headers_new",
    "rd_kafka_header_add",
    "rd_kafka_headers_destroy",
    "rd_kafka_outq_len",
    "rd_kafka_queue_io_event_enable",
)
"""In the order of the table in `_produce.c`."""
_OVERHEAD: Final = 256
"""Bytes of a record beside its key, value and headers, roughly; as in `_produce.c`."""
_ANY: Final = -1
_FULL: Final = KafkaError._QUEUE_FULL

Header = tuple[str, bytes | None]
ReportContext: TypeAlias = Any
"""What an owner passes with a record, and gets back with its report; only the owner uses it."""
Reports = tuple[Any, int, bool, list[ReportContext]]
"""Owner, librdkafka's error code (0: written), whether the failed records have keys, contexts."""
WrittenSeconds = tuple[Sequence[int], float]
"""Counts by bucket of `SECOND_BOUNDS`, and the sum."""
ErrorCallback = Callable[[KafkaError], None]
"""Called with errors of the client itself: a broker went away, or it can write no more."""


class ProduceOwner(Protocol):
    """Gets the delivery reports of its records, as the contexts that it passed with them, in the order of the reports.

    `keyed`: whether the records have keys. `batch`: the largest batch, in bytes, that the records may have been in.
    """

    def on_written(self, contexts: list[ReportContext]) -> None: ...
    def on_failed(self, contexts: list[ReportContext], error: KafkaError, *, keyed: bool, batch: int) -> None: ...


RecordArguments: TypeAlias = tuple[
    str, int, bytes | None, bytes | None, list[Header] | None, ProduceOwner, ReportContext
]
"""Topic, partition, key, value, headers, owner and context of a record to produce."""


class ProduceClient(Protocol):
    """One client and the owners of its records."""

    @property
    def client(self) -> Producer:
        """The client itself, which nobody else may `poll` or `flush`."""

    @property
    def size(self) -> int:
        """Bytes of the records that are not reported yet, roughly."""

    def put(self, *record: *RecordArguments) -> None:
        """Produce a record; its owner gets the report. Raises `BufferError` or `KafkaException`."""

    def put_messages(
        self, topic: str, partition: int, messages: Sequence[Transfer], start: int, owner: ProduceOwner, rules: int
    ) -> int:
        """Produce messages from `start` on while they are unsettled and C makes their records by these rules.

        Returns the index of the next one. `rules`: see `RecordWriter`.
        """

    def put_rows(self, topic: str, key: bytes, rows: list[tuple[object, ...]], owner: ProduceOwner) -> int:
        """Produce records of one key; each row begins with its value, and is its own context.

        Returns how many there was room for.
        """

    def reports(self) -> list[Reports]:
        """The delivery reports since the last call."""

    @property
    def written(self) -> WrittenSeconds:
        """How long records took to be written, in seconds, since the client was made."""


BOUND: Final = bind(_produce.bind, _FUNCTIONS, Producer)
"""Whether the C code can be used."""
_produce.bind_sha256(*(digest.ADDRESSES or (0, 0, 0)))


def make_client(settings: ClientSettings, on_error: ErrorCallback) -> ProduceClient:
    """A client with these settings."""
    native = BOUND and not calls_back(settings)
    return NativeClient(settings, on_error) if native else FallbackClient(settings, on_error)


class NativeClient:
    """A client whose reports C code takes, without callbacks."""

    def __init__(self, settings: ClientSettings, on_error: ErrorCallback) -> None:
        self.client: Final = Producer(dict(settings))
        self._on_error: Final = on_error
        self._outbox: Final = _produce.Outbox(self.client)

    @property
    def size(self) -> int:
        """See `ProduceClient`, as everything below."""
        return self._outbox.size

    @property
    def written(self) -> WrittenSeconds:
        return self._outbox.written

    def put(self, *record: *RecordArguments) -> None:
        if code := self._outbox.put(*record):
            error = KafkaError(code)
            raise BufferError(error.str()) if code == _FULL else KafkaException(error)

    def put_messages(
        self, topic: str, partition: int, messages: Sequence[Transfer], start: int, owner: ProduceOwner, rules: int
    ) -> int:
        return self._outbox.put_messages(topic, partition, messages, start, owner, rules)

    def put_rows(self, topic: str, key: bytes, rows: list[tuple[object, ...]], owner: ProduceOwner) -> int:
        return self._outbox.put_rows(topic, key, rows, owner)

    def reports(self) -> list[Reports]:
        groups, errors = self._outbox.reports()
        for code, reason, fatal in errors:
            self._on_error(KafkaError(code, reason, fatal))
        return groups


class FallbackClient:
    """A client that is called for each record, and calls back for each report."""

    def __init__(self, settings: ClientSettings, on_error: ErrorCallback) -> None:
        self.client: Final = Producer({**settings, "error_cb": on_error})
        self._on_error: Final = on_error
        self._reports: list[Reports] = []
        self.size = 0
        self.written: WrittenSeconds = (0,) * (len(SECOND_BOUNDS) + 1), 0.0  # not measured here

    def put(self, *record: *RecordArguments) -> None:
        """See `ProduceClient`, as everything below."""
        topic, partition, key, value, headers, owner, context = record
        size = _OVERHEAD + len(key or b"") + len(value or b"")
        size += sum(len(name) + len(content or b"") for name, content in headers or ())
        report = partial(self._reported, owner, context, size)
        more = {"headers": headers} if headers else {}
        self.client.produce(topic, value, key, partition, report, **more)  # type: ignore[arg-type]
        self.size += size

    def put_messages(
        self, topic: str, partition: int, messages: Sequence[Transfer], start: int, owner: ProduceOwner, rules: int
    ) -> int:
        return start  # none: each record takes a call in any case

    def put_rows(self, topic: str, key: bytes, rows: list[tuple[object, ...]], owner: ProduceOwner) -> int:
        for number, row in enumerate(rows):
            try:
                self.put(topic, _ANY, key, cast(bytes, row[0]), None, owner, row)
            except (BufferError, KafkaException):
                return number
        return len(rows)

    def _reported(
        self, owner: ProduceOwner, context: ReportContext, size: int, error: KafkaError | None, message: Message
    ) -> None:
        self.size -= size
        code, keyed = (0, False) if error is None else (error.code(), message.key() is not None)
        self._reports.append((owner, code, keyed, [context]))

    def reports(self) -> list[Reports]:
        try:
            self.client.poll(0)
        except KafkaException as raised:  # fatal errors are raised, others are passed to the callback
            error: KafkaError = raised.args[0]
            self._on_error(error)
        reports, self._reports = self._reports, []
        return reports
