"""The policy file as typed, frozen values (docs/policy.md); every key has a default except `scopes`.

Keys that say what a list entry is about (`match`, `may`, `name`, `to`) have none: nothing could be guessed.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, PlainValidator, StrictInt, Tag, WithJsonSchema

from policies.model.base import Also, Count, Flag, Name, Secret, Strict, StrictSection, parsed, setting_text
from policies.model.filters import Filters
from policies.model.journal import JournalSection
from policies.model.kafka import KafkaSecurity
from policies.model.pipeline import PipelineSection
from policies.model.scope import ScopeSection
from policies.model.units import Duration, PlaceOrOff, Size, State, parse_bind, parse_duration, parse_size

EMBEDDED: Final = "embedded"

# Settings that decide what the gateway promises (acks, positions, isolation, partitioning) or load code.
RESERVED_SETTINGS: Final = frozenset(
    {
        "acks",
        "request.required.acks",
        "enable.idempotence",
        "enable.gapless.guarantee",
        "transactional.id",
        "partitioner",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "auto.offset.reset",
        "isolation.level",
        "enable.partition.eof",
        "bootstrap.servers",
        "metadata.broker.list",
        "client.id",
        "max.in.flight",
        "max.in.flight.requests.per.connection",
        "plugin.library.paths",
        "dr_cb",
        "dr_msg_cb",
        "error_cb",
        "stats_cb",
        "throttle_cb",
        "log_cb",
        "rebalance_cb",
        "oauth_cb",
        "logger",
        "ssl.engine.location",
        "sasl.kerberos.kinit.cmd",
        "opaque",
    }
)
SECRET_SETTINGS: Final = frozenset(
    {
        "sasl.password",
        "ssl.key.password",
        "ssl.keystore.password",
        "ssl.key.pem",
        "sasl.oauthbearer.client.secret",
        "sasl.oauthbearer.config",
    }
)


def _until(value: object) -> int:
    if isinstance(value, str):
        try:
            end = datetime.fromisoformat(value)
        except ValueError:
            end = None
        if end is not None:
            end = end if end.tzinfo else end.replace(tzinfo=UTC)
            return int(end.timestamp() * 1000)
    raise ValueError("needs a date or a time, like 2026-12-01 or 2026-12-01T12:00:00Z; UTC if no zone is given")


def _bootstrap(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError('must be embedded or servers, like "kafka1:9092,kafka2:9092"')
    try:
        _ = value == EMBEDDED or [parse_bind(server.strip()) for server in value.split(",")]
    except ValueError:
        raise ValueError('must be embedded or servers, like "kafka1:9092,kafka2:9092"') from None
    return value.replace(" ", "")


def _setting_kind(value: object) -> str:
    return "<text>" if isinstance(value, str) else "<Secret>"


Until = Annotated[int, PlainValidator(_until), WithJsonSchema({"type": "string", "examples": ["2026-12-01"]})]
Bootstrap = Annotated[
    str,
    PlainValidator(_bootstrap),
    WithJsonSchema({"type": "string", "examples": [EMBEDDED, "k1:9092,k2:9092"]}),
]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Partitions = Annotated[StrictInt, Field(ge=1, le=64)]
Setting = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Secret, Tag("<Secret>")],
    Discriminator(_setting_kind),
    BeforeValidator(setting_text),
    Also(lambda _: [{"type": ["number", "boolean"]}]),
]


class GatewaySection(StrictSection):
    """The process itself."""

    id: Name = Field(default="scopegate", description="name of this gateway, and its container id")
    http: PlaceOrOff = parsed(parse_bind, "127.0.0.1:8672", "host:port of /healthz, /readyz and /metrics, or off")
    state: State = Field(default="memory", description="shared state: memory, or redis://host:port/db")
    lease: Annotated[Duration, Field(ge=1000, le=300_000)] = parsed(
        parse_duration,
        "10s",
        "state in Redis: how long a dead gateway process retains the partitions of its consumer groups",
    )
    user_termini: Count = Field(
        default=10_000,
        le=1_000_000,
        description="maximum number of stored positions of one user, of durable links and for each partition of its "
        "consumer groups; an attach that needs one more gets amqp:resource-limit-exceeded",
    )
    memory: Annotated[Size, Field(ge=64 * 2**20)] | None = Field(
        default=None,
        description="memory that the process may use: four fifths of it, less 96 MiB, may be held for peers; "
        "default: the limit of its container (cgroup), or 1GiB if there is none",
    )
    drain: Duration = parsed(parse_duration, "10s", "how long SIGTERM waits for outcomes before it closes")
    log: Literal["auto", "console", "json"] = Field(
        default="auto", description="auto: console in a terminal, json otherwise"
    )
    journal: JournalSection | None = Field(
        default=None, description="journal of decisions, see JournalSection; default: none"
    )


class KeyEntry(Secret):
    """One signing key: 32 or more bytes in base64url, made with `scopegate keys new`."""

    until: Until | None = Field(default=None, description="verify with this key until this date; default: always")


class KeysSection(Strict):
    """Keys that sign response-address cookies and rewritten reply addresses."""

    active: Name = Field(description="id of the key that signs")
    ring: dict[Name, KeyEntry] = Field(
        min_length=1, description="key id: where the secret is found; all of them verify, so keys can be rotated"
    )
    expiry: Annotated[Duration, Field(ge=1000)] = parsed(parse_duration, "5m", "how long a response may take")
    skew: Annotated[Duration, Field(le=300_000)] = parsed(
        parse_duration, "0s", "how long after its expiry a response is still accepted, for clocks that differ; at "
        "most 5m"
    )
    seal: Flag = Field(
        default=False,
        description="true: encrypt cookies, reply addresses and ids, so that other scopes cannot read their contents",
    )
    max_cookie: Annotated[Size, Field(ge=384, le=4096)] | None = Field(
        default=None,
        description="a cookie or reply address longer than this (384B to 4096B) is stored in gateway.state, and a "
        "reference to it is sent instead; default: cookies longer than 4096 bytes are rejected",
    )


class KafkaCluster(StrictSection):
    """One Kafka cluster."""

    bootstrap: Bootstrap = Field(
        default=EMBEDDED,
        description="servers, or embedded: an in-memory broker inside the gateway, for trials; it is empty after "
        "each start, and after a reload that changes this cluster",
    )
    client: dict[str, Setting] = Field(
        default_factory=dict, description="librdkafka settings beyond `security`; secrets as {env} or {file}"
    )
    security: KafkaSecurity | None = Field(
        default=None, description="TLS and login at the brokers, see KafkaSecurity; default: neither"
    )
    readers: Annotated[StrictInt, Field(ge=1, le=256)] = Field(
        default=16,
        description="number of Kafka clients that read for all links, fewer if memory is short (gateway.memory); "
        "links at the same position of a log share one",
    )
    cache: Annotated[Size, Field(ge=2**20)] = parsed(
        parse_size,
        "64MiB",
        "cache of recent events for links that are slightly behind, smaller if memory is short (gateway.memory); a "
        "link that is far behind reads on its own",
    )
    topics: dict[TopicName, Partitions] = Field(
        default_factory=dict, description="embedded only: topics to create, name: number of partitions"
    )


class Policy(Strict):
    """The whole policy file."""

    gateway: GatewaySection = Field(default_factory=GatewaySection, description="the process itself")
    keys: KeysSection | None = Field(default=None, description="signing keys; every relay with replies needs them")
    kafka: dict[Name, KafkaCluster] = Field(default_factory=dict, description="the Kafka clusters, by name")
    filters: Filters = Field(default_factory=Filters, description="filters on what clients receive")
    pipeline: PipelineSection | None = Field(
        default=None, description="defaults of `scopegate pipeline`, see PipelineSection; default: none"
    )
    scopes: dict[Name, ScopeSection] = Field(min_length=1, description="the scopes, by name")
