"""Kafka clusters: servers, the settings of librdkafka, embedded topics (policy section `kafka`)."""

from typing import Annotated, Final

from pydantic import BeforeValidator, Discriminator, Field, StrictInt, Tag

from policies.model.kafka_security import KafkaSecurity
from policies.values.base import Also, Flag, Parser, Secret, StrictSection, parsed, setting_text
from policies.values.units import Size, parse_bind, parse_size

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


Bootstrap = Annotated[
    str,
    Parser(_bootstrap, {"type": "string", "examples": [EMBEDDED, "k1:9092,k2:9092"]}),
]
TopicName = Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,249}$")]
Partitions = Annotated[StrictInt, Field(ge=1, le=64)]
Setting = Annotated[
    Annotated[str, Tag("<text>")] | Annotated[Secret, Tag("<Secret>")],
    Discriminator(_setting_kind),
    BeforeValidator(setting_text),
    Also(lambda _: [{"type": ["number", "boolean"]}]),
]


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
    required: Flag = Field(
        default=False,
        description="true: the gateway is not ready (/readyz answers 503) while this cluster is not reached; "
        "false: /readyz only reports it",
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
    transactional_producers: Annotated[StrictInt, Field(ge=1, le=256)] = Field(
        default=20,
        description="number of Kafka clients for transactions, each of which has one open transaction; a transaction "
        "that needs one more gets amqp:resource-limit-exceeded",
    )
    topics: dict[TopicName, Partitions] = Field(
        default_factory=dict, description="embedded only: topics to create, name: number of partitions"
    )
