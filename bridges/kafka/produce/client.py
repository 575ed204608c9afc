"""Records that a Kafka client has and has not reported yet, and what is kept for them until then (decision 18).

Where the client is one that the C code was made for, `_produce` takes its reports, all that are there in one call and
with no object for each. Everywhere else the client's own `produce` and `poll` do it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from confluent_kafka import KafkaError, KafkaException, Message, Producer, version

from bridges.kafka.librdkafka import SUPPORTED_LAYOUTS, address, calls_back
from bridges.kafka.produce import _produce

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
)
"""In the order of the table in `_produce.c`."""
_BESIDE: Final = 256
"""What a record takes beside its key, value and headers, roughly; as in `_produce.c`."""
_FULL: Final = KafkaError._QUEUE_FULL

Header = tuple[str, bytes | None]
Came = tuple[Any, bytes, bool]
"""A message that came: delivery, data, whether it came settled."""
Group = tuple[Any, int, bool, list[Any]]
"""Owner, librdkafka's code (0: written), whether the records have keys (said of those that are not), contexts."""
Said = Callable[[KafkaError], None]
"""Hears what a client has to say of itself: a broker went away, or it can write no more."""


class ProduceOwner(Protocol):
    """Who hears what became of records; gets what it gave with each, in the order in which it became known.

    `keyed`: whether the records have keys. `batch`: bytes of the batches that they may have travelled in, with others.
    """

    def on_written(self, contexts: list[Any]) -> None: ...
    def on_failed(self, contexts: list[Any], error: KafkaError, *, keyed: bool, batch: int) -> None: ...


class ProduceClient(Protocol):
    """Of one client; nobody else may `poll` or `flush` it. `size`: bytes that its records take, roughly."""

    @property
    def client(self) -> Producer: ...
    @property
    def size(self) -> int: ...

    def put(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header] | None,
        owner: ProduceOwner,
        context: Any,
    ) -> None: ...

    def put_plain(
        self, topic: str, partition: int, messages: Sequence[Came], start: int, owner: ProduceOwner
    ) -> int: ...

    def reports(self) -> list[Group]: ...


def _bound() -> bool:
    """Whether the C code was made for this client, and finds librdkafka in it."""
    if version() not in SUPPORTED_LAYOUTS:
        return False
    try:
        _produce.bind(tuple(map(address, _FUNCTIONS)), Producer)
    except AttributeError:  # built into the client, and not to be seen from outside
        return False
    return True


BOUND: Final = _bound()
"""Whether the fast path is used at all."""


def outbox(settings: Mapping[str, Any], said: Said) -> ProduceClient:
    """A client with these settings, and what is on its way with it."""
    return NativeClient(settings, said) if BOUND and not calls_back(settings) else FallbackClient(settings, said)


class NativeClient:
    """In C, which calls nobody back."""

    def __init__(self, settings: Mapping[str, Any], said: Said) -> None:
        self.client: Final = Producer(dict(settings))
        self._said: Final = said
        self._kept: Final = _produce.Outbox(self.client)

    @property
    def size(self) -> int:
        """Bytes of records that are not reported, roughly."""
        return self._kept.size

    def put(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header] | None,
        owner: ProduceOwner,
        context: Any,
    ) -> None:
        """Hand a record over, to be reported to `owner`; raises `BufferError` or `KafkaException`."""
        if code := self._kept.put(topic, partition, key, value, headers, owner, context):
            error = KafkaError(code)
            raise BufferError(error.str()) if code == _FULL else KafkaException(error)

    def put_plain(self, topic: str, partition: int, messages: Sequence[Came], start: int, owner: ProduceOwner) -> int:
        """Hand over messages while they are nothing but data; returns the number of the first that is not taken."""
        return self._kept.put_plain(topic, partition, messages, start, owner)

    def reports(self) -> list[Group]:
        """What became of records since the last call."""
        groups, errors = self._kept.reports()
        for code, reason, fatal in errors:
            self._said(KafkaError(code, reason, fatal))
        return groups


class FallbackClient:
    """The client's own way: a call for each record, and one back for each report."""

    def __init__(self, settings: Mapping[str, Any], said: Said) -> None:
        self.client: Final = Producer({**settings, "error_cb": said})
        self._said: Final = said
        self._groups: list[Group] = []
        self.size = 0

    def put(
        self,
        topic: str,
        partition: int,
        key: bytes | None,
        value: bytes | None,
        headers: list[Header] | None,
        owner: ProduceOwner,
        context: Any,
    ) -> None:
        """As that of `Many`."""
        size = _BESIDE + len(key or b"") + len(value or b"")
        size += sum(len(name) + len(content or b"") for name, content in headers or ())
        told = partial(self._reported, owner, context, size)
        more = {"headers": headers} if headers else {}
        self.client.produce(topic, value, key, partition, told, **more)  # type: ignore[arg-type]
        self.size += size

    def put_plain(self, topic: str, partition: int, messages: Sequence[Came], start: int, owner: ProduceOwner) -> int:
        """None is handed over: each takes a call in any case."""
        return start

    def _reported(
        self, owner: ProduceOwner, context: Any, size: int, error: KafkaError | None, message: Message
    ) -> None:
        self.size -= size
        code, keyed = (0, False) if error is None else (error.code(), message.key() is not None)
        self._groups.append((owner, code, keyed, [context]))

    def reports(self) -> list[Group]:
        """As those of `Many`; an error that is fatal is raised by the client and not told like others."""
        try:
            self.client.poll(0)
        except KafkaException as raised:
            error: KafkaError = raised.args[0]
            self._said(error)
        groups, self._groups = self._groups, []
        return groups
