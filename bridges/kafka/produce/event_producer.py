"""A Kafka client of its own for events that leave the gateway: to any cluster, with any login."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum, auto
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException

from bridges.kafka.common.librdkafka import ClientSettings
from bridges.kafka.produce.client import Header, ProduceClient, make_client

_BUSY: Final = 0.002
_IDLE: Final = 0.2
_ANY: Final = -1
_SETTINGS: Final[dict[str, Any]] = {
    # What the Java clients do with keys, so that one key means one partition everywhere.
    "partitioner": "murmur2_random",
    "linger.ms": 2,
    "queue.buffering.max.messages": 100_000,
    "queue.buffering.max.kbytes": 65_536,
    "message.max.bytes": 100_000_000,
    "allow.auto.create.topics": False,
    "log_level": 0,  # what matters comes as an error of the client or of a record
}


class Written(Enum):
    """What became of a record."""

    WRITTEN = auto()
    TOO_LARGE = auto()
    INVALID = auto()
    """The broker does not take such a record."""
    DENIED = auto()
    """What the login may do."""
    LOGIN = auto()
    """The login is not accepted."""
    NO_TLS = auto()
    """No connection: a certificate is not accepted, or there is no TLS."""
    NO_TOPIC = auto()
    UNKNOWN = auto()
    """Not written, or perhaps written: no answer in time."""


class EventReport(NamedTuple):
    """`name` is Kafka's name of the error."""

    outcome: Written
    name: str = ""


Report = Callable[[EventReport], None]
_OUTCOMES: Final = {
    KafkaError.MSG_SIZE_TOO_LARGE: Written.TOO_LARGE,
    KafkaError.INVALID_MSG_SIZE: Written.TOO_LARGE,
    KafkaError.RECORD_LIST_TOO_LARGE: Written.TOO_LARGE,
    KafkaError.INVALID_MSG: Written.INVALID,
    KafkaError.INVALID_RECORD: Written.INVALID,
    KafkaError.INVALID_TIMESTAMP: Written.INVALID,
    KafkaError.TOPIC_AUTHORIZATION_FAILED: Written.DENIED,
    KafkaError.CLUSTER_AUTHORIZATION_FAILED: Written.DENIED,
    KafkaError.SASL_AUTHENTICATION_FAILED: Written.LOGIN,
    KafkaError._AUTHENTICATION: Written.LOGIN,
    KafkaError.UNKNOWN_TOPIC_OR_PART: Written.NO_TOPIC,
    KafkaError._UNKNOWN_TOPIC: Written.NO_TOPIC,
    KafkaError._UNKNOWN_PARTITION: Written.NO_TOPIC,
}
_OF_ONE: Final = frozenset((Written.TOO_LARGE, Written.INVALID))
"""What a broker says of a batch because of one of its records."""

_CAUSES: Final = {
    **{code: outcome for code, outcome in _OUTCOMES.items() if outcome is Written.LOGIN},
    KafkaError._SSL: Written.NO_TLS,
}
"""What a client says of a connection, and records that wait for it are then told."""
_HANDSHAKE: Final = "state SSL_HANDSHAKE"
"""In the text of an error of a connection that ended within the TLS handshake."""


class EventProducer:
    """Used on the loop; reports are taken there, too.

    A broker refuses a whole batch because of one record, so what it refuses is sent once more, alone.
    """

    def __init__(self, settings: ClientSettings) -> None:
        """`settings`: where, with which login, `acks`, and `message.timeout.ms`."""
        self._settings: Final = {**_SETTINGS, **settings}
        self._loop: Final = asyncio.get_running_loop()
        self._together: Final = make_client(self._settings, self._on_error)
        self._alone: ProduceClient | None = None
        self._cause: Written | None = None
        """Why there is no connection, of `_CAUSES`, if that was the last thing that the client said."""
        self._closed = False
        self._timer: asyncio.TimerHandle = self._loop.call_later(_IDLE, self._poll)

    def produce(
        self, topic: str, key: bytes | None, value: bytes | None, headers: list[Header], report: Report
    ) -> None:
        """Hand a record over; `report` hears once what became of it, never from within this call."""
        self._put(self._together, _SentRecord(topic, key, value, headers, report))

    def _put(self, to: ProduceClient, record: _SentRecord) -> None:
        try:
            to.put(record.topic, _ANY, record.key, record.value, record.headers, self, record)
        except BufferError:
            self._loop.call_soon(record.report, EventReport(Written.UNKNOWN, "_QUEUE_FULL"))
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            self._loop.call_soon(record.report, self._report_of(error))
        else:
            self._timer.cancel()
            self._timer = self._loop.call_later(_BUSY, self._poll)

    # -- reports

    def on_written(self, contexts: list[_SentRecord]) -> None:
        """See `ProduceOwner`."""
        self._cause = None
        for record in contexts:
            record.report(EventReport(Written.WRITTEN))

    def on_failed(self, contexts: list[_SentRecord], error: KafkaError, *, keyed: bool, batch: int) -> None:
        """See `ProduceOwner`."""
        report = self._report_of(error)
        again = report.outcome in _OF_ONE or error.code() == KafkaError._INVALID_DIFFERENT_RECORD
        for record in contexts:
            if again and not record.alone:
                self._put(self._single(), record._replace(alone=True))
            else:
                record.report(report)

    def _report_of(self, error: KafkaError) -> EventReport:
        outcome = _OUTCOMES.get(error.code(), Written.UNKNOWN)
        if outcome is Written.UNKNOWN and self._cause is not None:
            outcome = self._cause
        return EventReport(outcome, error.name())

    def _single(self) -> ProduceClient:
        if self._alone is None:
            self._alone = make_client({**self._settings, "batch.num.messages": 1}, self._on_error)
        return self._alone

    def _on_error(self, error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # it follows the error of the last of them
            self._cause = Written.NO_TLS if _HANDSHAKE in error.str() else _CAUSES.get(error.code())

    def _clients(self) -> list[ProduceClient]:
        return [self._together] if self._alone is None else [self._together, self._alone]

    @property
    def in_flight(self) -> int:
        """Records whose report is still to come."""
        return sum(len(each.client) for each in self._clients())

    def _poll(self) -> None:
        try:
            for each in self._clients():
                for owner, code, keyed, contexts in each.reports():
                    if code:
                        owner.on_failed(contexts, KafkaError(code), keyed=keyed, batch=0)
                    else:
                        owner.on_written(contexts)
        finally:
            if not self._closed:
                self._timer = self._loop.call_later(_BUSY if self.in_flight else _IDLE, self._poll)

    def close(self) -> None:
        """Forget what is under way, and end."""
        self._closed = True
        self._timer.cancel()
        for each in self._clients():
            each.client.purge()
            each.reports()


class _SentRecord(NamedTuple):
    """A record on its way."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: list[Header]
    report: Report
    alone: bool = False
