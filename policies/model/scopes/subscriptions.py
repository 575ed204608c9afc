"""A subscription manager: the event streams it serves, who may subscribe, and how events reach their sinks (CE 3.2)."""

import re
from typing import Annotated, Final, Literal

from pydantic import Field, StrictInt, model_validator

from policies.model.scopes.sinks import OAuthEntry, SinkEntry
from policies.values.base import Count, Flag, Name, OneOrMany, Parser, Strict, StrictSection, parsed
from policies.values.units import Duration, PerTime, Size, is_host, parse_duration, parse_rate, parse_size

Operation = Literal["create", "retrieve", "query", "update", "delete"]
OPERATIONS: Final[tuple[Operation, ...]] = ("create", "retrieve", "query", "update", "delete")
Dialect = Literal["basic", "filters", "sql", "amqp-sql"]
DeliveryOrder = Literal["key", "partition", "none"]
_PATH: Final = re.compile(r"(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*){1,8}")


def _path(value: object) -> str:
    if isinstance(value, str) and len(value) <= 200 and _PATH.fullmatch(value):
        return value
    raise ValueError('needs a path like "/subscriptions": letters, digits, _, ~, . and -, without a last slash')


def _origin(value: object) -> str:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.-]+", value) and is_host(value):
        return value.lower()
    raise ValueError('needs a DNS name, like "gw.events.example"')


ApiPath = Annotated[str, Parser(_path, {"type": "string", "examples": ["/subscriptions"]})]
Origin = Annotated[str, Parser(_origin, {"type": "string", "examples": ["gw.events.example"]})]
Address = Annotated[str, Field(min_length=1, max_length=1024)]
Pause = Annotated[Duration, Field(ge=1)]


class ManagerLimits(StrictSection):
    """Limits of one subscription manager; what exceeds them is refused as invalid."""

    subscriptions: Count = Field(default=10_000, le=1_000_000, description="subscriptions of this manager")
    user: Count = Field(default=1000, le=1_000_000, description="subscriptions of one user")
    unindexed: Annotated[StrictInt, Field(ge=0, le=100_000)] = Field(
        default=200,
        description="filters that no index can look up, because they require no attribute to have a certain text, "
        "prefix or suffix: each of them is evaluated for every event",
    )
    object: Annotated[Size, Field(ge=1024, le=2**20)] = parsed(
        parse_size, "64KiB", "largest subscription object, 1KiB to 1MiB"
    )
    expires: Annotated[Duration, Field(ge=1000)] = parsed(
        parse_duration, "365d", "how far ahead `config.expires` of a subscription may be"
    )


class RetrySection(StrictSection):
    """How often an event is sent again, and when; subscriptions may ask for less (`x-retry`)."""

    min: Pause = parsed(parse_duration, "1s", "first pause; the pauses double, with full jitter")
    max: Pause = parsed(parse_duration, "5m", "longest pause")
    attempts: Count = Field(
        default=10,
        le=1000,
        description="maximum number of attempts for one event that failed while the sink accepted others",
    )
    within: Pause = parsed(parse_duration, "24h", "how long one event is retried while the sink accepts others")

    @model_validator(mode="after")
    def _ordered(self) -> "RetrySection":
        if self.min > self.max:
            raise ValueError("min must not be longer than max")
        return self


class DeliverySection(StrictSection):
    """How events are sent; these values limit the `x-` settings of subscriptions."""

    timeout: Annotated[Duration, Field(ge=1, le=600_000)] = parsed(parse_duration, "15s", "time limit of an attempt")
    connections: Count = Field(default=8, le=256, description="connections of one subscription to its sink")
    window: Count = Field(default=256, le=65_536, description="events of one subscription that are under way")
    bytes: Annotated[Size, Field(ge=1024)] = parsed(
        parse_size, "1MiB", "bytes of events of one subscription that are under way; a larger event goes alone"
    )
    order: DeliveryOrder = Field(
        default="key",
        description="key: events with the same record key one after the other; partition: those of a partition; "
        "none: no order. Subscriptions may choose another (`x-order`)",
    )
    rate: PerTime | None = Field(default=None, description="maximum event rate of one subscription; default: no limit")
    hold: Annotated[Size, Field(ge=2**20)] = parsed(
        parse_size, "64MiB", "bytes of events of all subscriptions of this manager that are under way"
    )
    retry: RetrySection = Field(default_factory=RetrySection, description="see RetrySection")
    retry_after: Annotated[Duration, Field(ge=1000)] = parsed(
        parse_duration, "1h", "longest pause that a sink may ask for (Retry-After)"
    )
    refusals: Count = Field(
        default=20, description="number of events refused in a row after which a subscription is suspended"
    )
    suspend_after: Annotated[Duration, Field(ge=1000)] = parsed(
        parse_duration, "5d", "how long a sink may be unreachable before its subscription is suspended"
    )


class HandshakeSection(StrictSection):
    """How HTTP sinks are asked for their consent before anything is sent to them (CloudEvents Web Hooks 4)."""

    origin: Origin = Field(description="DNS name of this gateway, which sinks see as WebHook-Request-Origin")
    rate: PerTime = parsed(parse_rate, "600/m", "requested rate, WebHook-Request-Rate")
    patience: Annotated[Duration, Field(ge=100, le=60_000)] = parsed(
        parse_duration, "10s", "how long Create and Update wait for the consent"
    )


class SubscriptionManagerEntry(Strict):
    """A collection of subscriptions at one path of the scope's `api`, and at addresses with `service: subscriptions`.

    A subscription has an owner, the user who created it; other users do not see it. Creating one needs the right
    `subscribe` for its source addresses. Events wait in their topics until the sink has taken them.
    """

    name: Name = Field(description="name of the manager in positions, metrics and log lines; under a new name it "
        "starts without subscriptions")
    path: ApiPath = Field(default="/subscriptions", description="path of the collection")
    events: OneOrMany[Address] = Field(
        min_length=1, description="addresses of this scope that are Kafka topics: the sources of events"
    )
    manage: OneOrMany[Annotated[str, Field(min_length=1, max_length=256)]] = Field(
        default=(), description="users who may see and end the subscriptions of all users"
    )
    operations: OneOrMany[Operation] = Field(
        default=OPERATIONS, min_length=1, description="operations offered; retrieve has to be among them"
    )
    upsert: Flag = Field(default=False, description="true: an update of an unknown id creates the subscription")
    dialects: OneOrMany[Dialect] = Field(
        default=("basic", "filters", "sql"),
        min_length=1,
        description="filter dialects: basic has to be among them; filters: exact, prefix, suffix, all, any and not; "
        "sql: CloudEvents SQL; amqp-sql: the SQL of filters on links",
    )
    others: Literal["skip", "wrap"] = Field(
        default="skip",
        description="records that are not CloudEvents: skip, or wrap them in events of type kafka.record",
    )
    slices: Annotated[StrictInt, Field(ge=1, le=64)] = Field(
        default=1, description="number of parts in which the subscriptions are divided among several gateways"
    )
    limits: ManagerLimits = Field(default_factory=ManagerLimits, description="see ManagerLimits")
    keep_ended: Duration = parsed(parse_duration, "7d", "how long a subscription that has ended can still be seen")
    delivery: DeliverySection = Field(default_factory=DeliverySection, description="see DeliverySection")
    handshake: HandshakeSection | None = Field(
        default=None, description="see HandshakeSection; needed by http sinks except those with handshake: off"
    )
    sinks: tuple[SinkEntry, ...] = Field(
        default=(), description="where events may go; the first match decides, and what no entry allows is denied"
    )
    oauth: tuple[OAuthEntry, ...] = Field(
        default=(), description="token endpoints for credentials of type REFRESHTOKEN; no other is asked"
    )
