"""The model of a subscription: checked, with its defaults applied (CE 3.2.1). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal, NamedTuple

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
"""A JSON value."""
Order = Literal["key", "partition", "none"]
Mode = Literal["binary", "structured", "batched"]


class Mistake(NamedTuple):
    """A mistake in a proposed object; `field` is a JSON pointer (RFC 6901), empty for the whole object."""

    field: str
    message: str


class InvalidSubscription(Exception):
    """A proposed object with mistakes."""

    def __init__(self, mistakes: tuple[Mistake, ...]) -> None:
        super().__init__("; ".join(f"{each.field}: {each.message}" for each in mistakes))
        self.mistakes = mistakes


class SinkProtocol(StrEnum):
    """The protocols of CE 3.2.1, in their exact spelling."""

    HTTP = "HTTP"
    AMQP = "AMQP"
    KAFKA = "KAFKA"
    MQTT3 = "MQTT3"
    MQTT5 = "MQTT5"
    NATS = "NATS"


class SinkUri(NamedTuple):
    """The parts of a sink's URI; `hosts` has several only for KAFKA, and none where the sink names no host."""

    text: str
    scheme: str
    hosts: tuple[tuple[str, int], ...]
    path: str
    """Percent-encoded as in the original, with its leading slash; empty if there is none."""
    query: str

    @property
    def origin(self) -> str:
        """Scheme, hosts and ports; secrets are bound to them."""
        return f"{self.scheme}://" + ",".join(f"{host}:{port}" for host, port in self.hosts)


class Batching(NamedTuple):
    """`x-batch`: a batch is sent when a limit is reached."""

    events: int
    size: int
    wait: float
    """In seconds."""


class RetryLimits(NamedTuple):
    """`x-retry` and the policy's `retry`: pauses in seconds, attempts of an event, and seconds until it is given up."""

    min: float
    max: float
    attempts: int
    within: float


class DeliverySettings(NamedTuple):
    """How events are sent: the policy's `delivery` and the subscription's `x-` settings within its limits."""

    order: Order
    connections: int
    window: int
    bytes: int
    timeout: float
    rate: float | None
    """Events per second; None for no limit."""
    retry: RetryLimits
    batch: Batching | None


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """CE 3.2.2.1."""

    headers: tuple[tuple[str, str], ...]
    secret_headers: tuple[tuple[str, str], ...] = field(repr=False)
    method: Literal["POST", "PUT", "PATCH"]
    mode: Mode


@dataclass(frozen=True, slots=True)
class MqttSettings:
    """CE 3.2.2.2."""

    topic: str
    qos: Literal[0, 1, 2]
    retain: bool
    expiry: int | None
    user_properties: tuple[tuple[str, str], ...]
    mode: Mode


@dataclass(frozen=True, slots=True)
class AmqpSettings:
    """CE 3.2.2.3."""

    address: str
    link_name: str | None
    settled: bool
    link_properties: Mapping[str, Json]
    mode: Mode
    separator: Literal[":", "_"]
    mechanism: str | None


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """CE 3.2.2.4."""

    topic: str
    key: str | None
    """`partitionkeyextractor`: an attribute name, or `data:` with a JSON pointer; None for the source record's key."""
    client_id: str | None
    acks: Literal["0", "1", "all"] | None
    mode: Mode
    mechanism: str | None


@dataclass(frozen=True, slots=True)
class NatsSettings:
    """CE 3.2.2.5."""

    subject: str
    jetstream: bool
    mode: Mode


ProtocolSettings = HttpSettings | MqttSettings | AmqpSettings | KafkaSettings | NatsSettings


@dataclass(frozen=True, slots=True)
class PlainCredential:
    """User and password."""

    identifier: str
    secret: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A bearer token that is valid until `expires` (milliseconds since 1970)."""

    token: str = field(repr=False)
    expires: int


@dataclass(frozen=True, slots=True)
class RefreshToken:
    """A bearer token that is renewed at `endpoint`."""

    token: str = field(repr=False)
    expires: int
    refresh_token: str = field(repr=False)
    endpoint: str


SinkCredential = PlainCredential | AccessToken | RefreshToken


class FromLatest(NamedTuple):
    """Start at each partition's end at the time of creation."""


class FromEarliest(NamedTuple):
    """Start at the oldest event of each partition."""


class FromTime(NamedTuple):
    """Start at the first event that was stored at this time (milliseconds since 1970) or later."""

    time: int


class FromOffsets(NamedTuple):
    """Start at these offsets by partition; partitions that are not listed start at their ends."""

    offsets: Mapping[int, int]


Start = FromLatest | FromEarliest | FromTime | FromOffsets


class SubscriptionConfig(NamedTuple):
    """`config`; `addresses` None means all of the manager's addresses that the owner may subscribe to."""

    addresses: tuple[str, ...] | None
    start: Start
    expires: int | None
    """In milliseconds since 1970."""
    max_events: int | None
