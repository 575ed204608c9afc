"""The records of a transactional client, without contexts: their reports are counted, and the first error is kept."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from bridges.kafka.common.librdkafka import ClientSettings, calls_back
from bridges.kafka.produce import _produce
from bridges.kafka.produce.client import BOUND, ErrorCallback, Header
from bridges.kafka.transactions.wakeups import PipeWakeups, TimerWakeups, Wakeups
from gateway.amqp.link.handlers import Transfer

_FULL: Final = KafkaError._QUEUE_FULL


class TransactionOutbox(Protocol):
    """One client and the records that it has not reported yet."""

    @property
    def client(self) -> Producer:
        """The client itself."""

    @property
    def size(self) -> int:
        """Bytes of these records, roughly."""

    def put(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: list[Header] | None
    ) -> None:
        """Produce a record. Raises `BufferError` or `KafkaException`."""

    def put_messages(self, topic: str, partition: int, messages: list[Transfer], start: int, rules: int) -> int:
        """As `ProduceClient.put_messages`."""

    def usual(self, messages: list[Transfer], start: int, rules: int) -> int:
        """Where the messages from `start` on end of which `put_messages` makes the records."""

    def reports(self) -> tuple[int, int]:
        """How many records were reported since the last call, and librdkafka's code of the first error, or 0."""

    def waiting(self) -> int:
        """How many records the client has; 0: there will be no report any more."""

    def wakeups(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> Wakeups:
        """Call `wake` on the loop when there may be reports."""


def make_outbox(settings: ClientSettings, on_error: ErrorCallback) -> TransactionOutbox:
    """A client with these settings."""
    client = Producer({**settings, "error_cb": on_error})
    return CountingOutbox(client) if BOUND and not calls_back(settings) else CallbackOutbox(client)


class CountingOutbox:
    """C code counts the reports."""

    def __init__(self, client: Producer) -> None:
        self.client: Final = client
        self._outbox: Final = _produce.Outbox(client)

    @property
    def size(self) -> int:
        """See `TransactionOutbox`, as everything below."""
        return self._outbox.size

    def put(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: list[Header] | None
    ) -> None:
        if code := self._outbox.put(topic, partition, key, value, headers, None, None):
            error = KafkaError(code)
            raise BufferError(error.str()) if code == _FULL else KafkaException(error)

    def put_messages(self, topic: str, partition: int, messages: list[Transfer], start: int, rules: int) -> int:
        return self._outbox.put_messages(topic, partition, messages, start, None, rules)

    def usual(self, messages: list[Transfer], start: int, rules: int) -> int:
        return _produce.usual(messages, start, rules)

    def reports(self) -> tuple[int, int]:
        _, code, count = self._outbox.settle(0)
        return count, code

    def waiting(self) -> int:
        return len(self.client)

    def wakeups(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> Wakeups:
        return PipeWakeups(loop, wake, self._outbox.wake)


class CallbackOutbox:
    """The client is called for each record, and calls back for each report."""

    def __init__(self, client: Producer) -> None:
        self.client: Final = client
        self._reported = self._code = 0
        self.size = 0

    def put(
        self, topic: str, partition: int, key: bytes | None, value: bytes | None, headers: list[Header] | None
    ) -> None:
        """See `TransactionOutbox`, as everything below."""
        more = {"headers": headers} if headers else {}
        self.client.produce(topic, value, key, partition, self._report, **more)  # type: ignore[arg-type]
        self.size += len(key or b"") + len(value or b"")

    def put_messages(self, topic: str, partition: int, messages: list[Transfer], start: int, rules: int) -> int:
        return start  # none: each record takes a call in any case

    def usual(self, messages: list[Transfer], start: int, rules: int) -> int:
        return start

    def _report(self, error: KafkaError | None, message: Message) -> None:
        self._reported += 1
        self._code = self._code or (0 if error is None else error.code())

    def reports(self) -> tuple[int, int]:
        self.client.poll(0)
        (count, code), self._reported, self._code = (self._reported, self._code), 0, 0
        self.size = self.size if len(self.client) else 0
        return count, code

    def waiting(self) -> int:
        return len(self.client)

    def wakeups(self, loop: asyncio.AbstractEventLoop, wake: Callable[[], None]) -> Wakeups:
        return TimerWakeups(loop, wake)
