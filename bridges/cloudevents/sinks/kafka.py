"""The Kafka sink: a cluster of the policy, or any cluster that a rule allows (Kafka binding)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from typing import Final

from bridges.cloudevents.delivery.answers import DONE, Answer, DeliveryOutcome
from bridges.cloudevents.delivery.sink import SendAttempt, SinkListener
from bridges.cloudevents.events.bindings.kafka import kafka_binary, kafka_structured, record_key
from bridges.cloudevents.events.event import CloudEvent
from bridges.cloudevents.model.values import KafkaSettings, PlainCredential
from bridges.cloudevents.sinks.common.dependencies import SinkDependencies
from bridges.cloudevents.subscription.subscription import Subscription
from bridges.kafka.produce.event_producer import EventProducer, EventReport, Written
from bridges.kafka.records.envelope import Header
from policies.egress import SinkRule
from policies.model.scopes.sinks import SinkTls

_MAX_CLIENTS: Final = 64
"""Maximum number of Kafka clients of one manager; each has its own threads."""
_MECHANISM: Final = "SCRAM-SHA-256"
_MEANINGS: Final[Mapping[Written, tuple[DeliveryOutcome, str]]] = {
    Written.TOO_LARGE: (DeliveryOutcome.REFUSED, "larger than the topic takes"),
    Written.INVALID: (DeliveryOutcome.REFUSED, "the topic does not take such a record"),
    Written.DENIED: (DeliveryOutcome.CREDENTIAL, "the cluster does not let us write to the topic"),
    Written.LOGIN: (DeliveryOutcome.CREDENTIAL, "the cluster does not accept the login"),
    Written.NO_TLS: (DeliveryOutcome.SINK_FAILED, "TLS with the cluster failed, or its certificate is not accepted"),
    Written.NO_TOPIC: (DeliveryOutcome.SINK_FAILED, "the topic does not exist"),
    Written.UNKNOWN: (DeliveryOutcome.FAILED, "not written in time"),
}

_NOT_REACHED: Final = (Written.UNKNOWN, Written.NO_TLS)


class KafkaClients:
    """The Kafka clients of one manager; subscriptions with equal settings share one."""

    def __init__(self) -> None:
        self._users: Final[dict[frozenset[tuple[str, object]], tuple[EventProducer, list[None]]]] = {}

    def acquire(self, settings: Mapping[str, object]) -> EventProducer | None:
        """A client with these settings, until `release`; None if there are too many."""
        key = frozenset(settings.items())
        if key not in self._users:
            if len(self._users) >= _MAX_CLIENTS:
                return None
            self._users[key] = (EventProducer(settings), [])
        producer, users = self._users[key]
        users.append(None)
        return producer

    def release(self, settings: Mapping[str, object]) -> None:
        """Release a client; the last release closes it."""
        key = frozenset(settings.items())
        producer, users = self._users[key]
        users.pop()
        if not users:
            del self._users[key]
            producer.close()


class KafkaSink:
    """Writes each event as a record, up to `window` at a time."""

    def __init__(
        self,
        clients: KafkaClients,
        settings: Mapping[str, object],
        topic: str,
        encode: Callable[[CloudEvent], tuple[bytes | None, list[Header], bytes | None]],
        window: int,
        listener: SinkListener,
    ) -> None:
        """`encode` returns key, headers and value, and raises ValueError for an event that Kafka cannot carry."""
        self._clients: Final = clients
        self._settings: Final = settings
        self._topic: Final = topic
        self._encode: Final = encode
        self._window: Final = window
        self._listener: Final = listener
        self._loop: Final = asyncio.get_running_loop()
        self._producer: EventProducer | None = None
        self._in_flight = 0
        self._drain_waiters: Final[deque[asyncio.Future[None]]] = deque()
        self._closed = False

    @property
    def free_slots(self) -> int:
        """See `Sink`."""
        return 0 if self._closed else self._window - self._in_flight

    def send(self, attempt: SendAttempt) -> None:
        """See `Sink`."""
        self._in_flight += 1
        (event,) = attempt.events
        try:
            key, headers, value = self._encode(event)
        except ValueError:
            self._answer_later(attempt, Answer(DeliveryOutcome.REFUSED, "the event cannot be encoded for Kafka"))
            return
        if self._producer is None:
            self._producer = self._clients.acquire(self._settings)
        if self._producer is None:
            text = f"this manager has {_MAX_CLIENTS} Kafka clients already, its limit"
            self._answer_later(attempt, Answer(DeliveryOutcome.SINK_FAILED, text))
            return
        self._producer.produce(
            self._topic, key, value, headers, lambda report: self._on_answer(attempt, _answer_of(report))
        )

    def _answer_later(self, attempt: SendAttempt, answer: Answer) -> None:
        self._loop.call_soon(self._on_answer, attempt, answer)

    def _on_answer(self, attempt: SendAttempt, answer: Answer) -> None:
        self._in_flight -= 1
        if not self._closed:
            self._listener.on_answer(attempt, answer)
            self._listener.on_ready()
        if not self._in_flight:
            while self._drain_waiters:
                waiting = self._drain_waiters.popleft()
                if not waiting.done():
                    waiting.set_result(None)

    async def close(self, grace: float) -> None:
        """See `Sink`."""
        if self._in_flight and grace:
            waiting: asyncio.Future[None] = self._loop.create_future()
            self._drain_waiters.append(waiting)
            await asyncio.wait([waiting], timeout=grace)
        self._closed = True
        if self._producer is not None:
            self._producer = None
            self._clients.release(self._settings)


def _answer_of(report: EventReport) -> Answer:
    if report.outcome is Written.WRITTEN:
        return DONE
    verdict, text = _MEANINGS[report.outcome]
    return Answer(verdict, f"{text} ({report.name})", reached=report.outcome not in _NOT_REACHED)


def open_kafka(
    dependencies: SinkDependencies,
    clients: KafkaClients,
    subscription: Subscription,
    rule: SinkRule,
    listener: SinkListener,
) -> KafkaSink:
    """Make the sink of a subscription; its client is made, or shared, with the first event."""
    kafka = subscription.settings
    assert isinstance(kafka, KafkaSettings)
    settings = {
        **_cluster_settings(dependencies, subscription, kafka, rule),
        **_producer_settings(kafka, subscription.delivery.timeout),
    }
    write = kafka_binary if kafka.mode == "binary" else kafka_structured

    def encode(event: CloudEvent) -> tuple[bytes | None, list[Header], bytes | None]:
        headers, value = write(event)
        return record_key(event, kafka.key), headers, value

    return KafkaSink(clients, settings, kafka.topic, encode, subscription.delivery.window, listener)


def _producer_settings(kafka: KafkaSettings, timeout: float) -> dict[str, object]:
    acks = kafka.acks or "all"
    settings: dict[str, object] = {
        "acks": acks,
        "enable.idempotence": acks == "all",
        "message.timeout.ms": max(1000, int(timeout * 1000)),
    }
    return settings if kafka.client_id is None else {**settings, "client.id": kafka.client_id}


def _cluster_settings(
    dependencies: SinkDependencies, subscription: Subscription, kafka: KafkaSettings, rule: SinkRule
) -> Mapping[str, object]:
    """The settings of the cluster and the login: those of the policy, or the subscription's credential."""
    if rule.cluster is not None:
        return dependencies.cluster_settings(rule.cluster)
    servers = ",".join(f"{host}:{port}" for host, port in subscription.sink.hosts)
    login = subscription.credential if isinstance(subscription.credential, PlainCredential) else None
    found: dict[str, object] = {"bootstrap.servers": servers, **_tls(dependencies, rule.tls)}
    found["security.protocol"] = ("SASL_" if login else "") + ("SSL" if rule.tls is not None else "PLAINTEXT")
    if login is not None:
        mechanism = kafka.mechanism or _MECHANISM
        found |= {"sasl.mechanism": mechanism, "sasl.username": login.identifier, "sasl.password": login.secret}
    return found


def _tls(dependencies: SinkDependencies, tls: SinkTls | None) -> dict[str, object]:
    if tls is None:
        return {}
    files = {"ssl.ca.location": tls.ca, "ssl.certificate.location": tls.cert, "ssl.key.location": tls.key}
    found: dict[str, object] = {
        name: str(dependencies.certificates.path(file)) for name, file in files.items() if file is not None
    }
    if tls.key_password is not None:
        found["ssl.key.password"] = dependencies.secret(tls.key_password).decode()
    return found
