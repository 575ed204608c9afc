"""A subscription, checked and with its defaults applied (CE 3.2.1). Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from bridges.cloudevents.events.filter import EventFilter
from bridges.cloudevents.model.values import (
    AmqpSettings,
    DeliverySettings,
    HttpSettings,
    Json,
    KafkaSettings,
    MqttSettings,
    NatsSettings,
    ProtocolSettings,
    SinkCredential,
    SinkProtocol,
    SinkUri,
    SubscriptionConfig,
)
from bridges.cloudevents.subscription.delivery_request import DeliveryRequest
from policies.egress import SinkDestination
from policies.model.scopes.sinks import SinkKind

_KINDS: Mapping[SinkProtocol, SinkKind] = {
    SinkProtocol.HTTP: "http",
    SinkProtocol.AMQP: "amqp",
    SinkProtocol.KAFKA: "kafka",
    SinkProtocol.MQTT3: "mqtt3",
    SinkProtocol.MQTT5: "mqtt5",
    SinkProtocol.NATS: "nats",
}


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription of a manager; operations return `document`, the realized object without secrets.

    `delivery` has the object's requests within the policy's limits. `filter` combines `filter`, `filters`, `types`
    and `source`. `secrets_unreadable`: its secrets cannot be decrypted; its credential and secret headers are missing.
    """

    id: str
    owner: str
    protocol: SinkProtocol
    sink: SinkUri
    settings: ProtocolSettings
    filter: EventFilter
    dialects: frozenset[str]
    """The dialects of the filter, named as in the policy."""
    config: SubscriptionConfig
    credential: SinkCredential | None = field(repr=False)
    delivery: DeliverySettings
    request: DeliveryRequest
    """The delivery settings that the object requests."""
    text: bytes
    """The JSON of `document`: among many subscriptions, a tenth of the size of its members."""
    secrets_unreadable: bool = False
    encryption_key: str | None = field(default=None, compare=False)
    """The id of the key with which its stored secrets are encrypted; None if it has none."""

    @property
    def document(self) -> dict[str, Json]:
        """A new copy of the realized object without secrets."""
        found: dict[str, Json] = json.loads(self.text)
        return found

    @property
    def guarantee(self) -> Literal["at-least-once", "at-most-once"]:
        """The delivery guarantee: `qos` 0, `acks` "0", settled sending and core NATS may lose events at the sink."""
        settings = self.settings
        lossy = (
            (isinstance(settings, MqttSettings) and settings.qos == 0)
            or (isinstance(settings, KafkaSettings) and settings.acks == "0")
            or (isinstance(settings, AmqpSettings) and settings.settled)
            or (isinstance(settings, NatsSettings) and not settings.jetstream)
        )
        return "at-most-once" if lossy else "at-least-once"

    @property
    def secret_headers(self) -> dict[str, str]:
        """Headers whose values are secrets."""
        return dict(self.settings.secret_headers) if isinstance(self.settings, HttpSettings) else {}

    @property
    def destination(self) -> SinkDestination:
        """The properties by which the policy allows or denies the sink."""
        address = ""
        if isinstance(self.settings, AmqpSettings):
            address = self.settings.address
        elif isinstance(self.settings, KafkaSettings):
            address = self.settings.topic
        return SinkDestination(_KINDS[self.protocol], self.sink.scheme, self.sink.hosts, self.sink.path, address)
