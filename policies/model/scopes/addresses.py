"""The rules of a scope: what an address is (`addresses`, first match wins) and who may use it (`access`)."""

from collections.abc import Mapping
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Discriminator, Field, StrictInt, Tag

from policies.model.scopes.assignment import (
    Binding,
    EqualEpoch,
    GroupMode,
    GroupNames,
    Ownership,
    PartitionNumbers,
    Surplus,
)
from policies.model.scopes.reading import Annotate, Beginning, Isolation, Truncation
from policies.values.base import Also, Count, Flag, Name, OneOrMany, Parser, Strict, StrictSection, parsed
from policies.values.patterns import Pattern, Template, parse_pattern, parse_template
from policies.values.units import Duration, Target, parse_duration

Replies = Literal["auto", "cookie", "rewrite", "none"]
DirectMode = Literal["balanced", "multicast"]
RecordMode = Literal["auto", "amqp", "data", "cloudevents"]
ServiceName = Literal["echo", "subscriptions"]
KeySource = Literal["group-key", "group-id"]
MAX_USES = 1000
"""More than this is a rate, not a limit of uses."""

_PATTERN_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 1024, "examples": ["chat/**"]}
_TEMPLATE_SCHEMA = {"type": "string", "minLength": 1, "maxLength": 1024, "examples": ["q/{name}"]}


def _pattern(value: object) -> Pattern:
    return value if isinstance(value, Pattern) else parse_pattern(value)


def _template(value: object) -> Template:
    return value if isinstance(value, Template) else parse_template(value)


Match = Annotated[Pattern, Parser(_pattern, _PATTERN_SCHEMA)]
Text = Annotated[Template, Parser(_template, _TEMPLATE_SCHEMA)]

_MATCH_TEXT = (
    "address pattern: segments between '/'; {name} and * take one segment, a last ** takes the rest (zero or "
    "more segments); an empty address, one over 1024 characters or with control characters matches nothing"
)


class DirectRule(Strict):
    """A node without storage that matches attached senders and receivers."""

    match: Match = Field(description=_MATCH_TEXT)
    direct: DirectMode = Field(
        description="balanced: one receiver gets each message; multicast: all receivers get it, at the pace of the "
        "slowest (a receiver whose connection is dead holds the others up until limits.idle_timeout)"
    )


class Returns(StrictSection):
    """How responses are routed back, and how many there may be."""

    mode: Replies = Field(
        default="auto",
        description="auto (cookie if the target understands annotations, else rewrite), cookie, rewrite, or none "
        "(messages pass unchanged)",
    )
    uses: Annotated[StrictInt, Field(ge=1, le=MAX_USES)] | None = Field(
        default=None,
        description=f"how many responses a request may have, at most {MAX_USES}, counted in gateway.state; default: "
        "any number until keys.expiry",
    )


def _returns(value: object) -> object:
    return value if value is None or isinstance(value, dict | Returns) else {"mode": value}


_REPLIES_SCHEMA = {"type": "string", "enum": ["auto", "cookie", "rewrite", "none"]}
ReturnsOrMode = Annotated[Returns, BeforeValidator(_returns), Also(lambda _: [_REPLIES_SCHEMA])]


class RelayRule(Strict):
    """The link continues in another scope, or at the container behind a connector of this scope."""

    match: Match = Field(description=_MATCH_TEXT)
    relay: Name = Field(description="name of another scope, or of a connector of this scope")
    address: Text | None = Field(
        default=None,
        description="address in the other scope or at the container, with {captures} of match; default: the same "
        "address",
    )
    replies: ReturnsOrMode = parsed(
        lambda text: Returns.model_validate({"mode": text}),
        "auto",
        "how responses are routed back: auto (cookie if the target understands annotations, else rewrite), cookie, "
        "rewrite, or none (messages pass unchanged); or {mode: auto, uses: 1} for requests with that many responses",
    )


class KafkaRule(Strict):
    """An event-stream node on a Kafka topic; `<address>/$info` describes its partitions."""

    match: Match = Field(description=_MATCH_TEXT)
    kafka: Name = Field(description="name of a cluster under kafka")
    topic: Text = parsed(
        parse_template,
        "{topic}",
        "topic, with {captures} of match; an address that gives no legal Kafka topic name is not found. Captures do "
        "not reach internal topics (names that start with __, the journal, dead-letter topics): name them literally",
    )
    binding: Binding = Field(
        default="agnostic",
        description="links that name no partition: agnostic (they read all of them), assign (the gateway binds each "
        "to one), client (refused: they have to name one)",
    )
    partitions: PartitionNumbers = Field(
        default="all",
        description="partitions that links may be bound to: all, none, or a list of numbers; a link that names "
        "another gets amqp:not-allowed",
    )
    groups: GroupNames = Field(
        default="dynamic",
        description="consumer groups: dynamic (any name), a list of names (others get amqp:not-found), or none",
    )
    group_mode: GroupMode = Field(
        default="bound",
        description="bound: a link of a group owns one partition; shared: it is bound to none and has an even share "
        "of all partitions, which changes as links come and go and is announced on the next event",
    )
    surplus: Surplus = Field(
        default="reject",
        description="a link of a group that finds no free partition: reject (amqp:link:detach-forced), or pend: it "
        "waits for one, in the order of attaches; with group_mode: shared it is attached and stands by",
    )
    pending_timeout: Annotated[Duration, Field(ge=1)] = parsed(
        parse_duration, "30s", "pend: how long a link waits before it is refused"
    )
    pending_limit: Count = Field(
        default=100, le=10_000, description="pend: maximum number of waiting links of a group; more are refused"
    )
    epoch_retention: Annotated[Duration, Field(le=7 * 86_400_000)] = parsed(
        parse_duration,
        "5m",
        "how long a group's epoch is remembered after its owner's connection was lost; a link that closes in an "
        "orderly way resets it",
    )
    equal_epoch: EqualEpoch = Field(
        default="refuse",
        description="a link of a group whose epoch equals that of the owner of its partition: refuse "
        "(amqp:resource-locked), or displace the owner, as Azure Event Hubs does and as its clients expect",
    )
    ownership: Ownership = Field(
        default="shared",
        description="several gateways: shared (each serves every partition), or sharded: each partition is served by "
        "one of them and the others redirect to it (needs gateway.state in Redis, and advertise at the listeners)",
    )
    mode: RecordMode = Field(
        default="auto",
        description="record value: auto (the bytes of a single data section, the rest stored in headers), amqp (the "
        "whole message), data (bytes only, the rest is dropped), cloudevents (like auto, but messages that are not "
        "CloudEvents are rejected)",
    )
    credit: Count = Field(default=1000, le=100_000, description="maximum number of messages in flight per sending link")
    max_redeliveries: Annotated[StrictInt, Field(ge=0, le=1000)] = Field(
        default=5,
        description="how often an event that a receiver modified, or settled in a transaction that was rolled back, is "
        "sent to it again before it counts as undeliverable; released events do not count",
    )
    dead_letter: Text | None = Field(
        default=None,
        description="topic of the same cluster, with {captures} of match, that gets a copy of each event that a "
        "receiver rejected or that is undeliverable; without one the position just advances past it",
    )
    strict_order: Flag | None = Field(
        default=None,
        description="true: newer events of a partition wait while one of them is sent again; default: for durable "
        "links and consumer groups",
    )
    on_truncation: Truncation = Field(
        default="continue",
        description="when retention has deleted the next event of a receiver: continue (at the oldest event, marked "
        "with x-opt-gateway-gap), or detach (amqp:resource-deleted)",
    )
    filter_without_position: Beginning = Field(
        default="latest",
        description="where a link begins if its filter names no offset or time: latest, or earliest (all retained "
        "events)",
    )
    annotate: Annotate = Field(
        default="always",
        description="whether events carry their offset, partition and time as delivery annotations: always; "
        "negotiated: for clients that desire AMQP_EVENT_STREAMS_V1_0 or use a feature of it; never: for clients that "
        "refuse annotations they do not know",
    )
    drop_expired: Flag = Field(
        default=False,
        description="true: skip events whose ttl or absolute-expiry-time has passed; default: deliver them. A ttl is "
        "always reduced by the time in the log",
    )
    isolation: Isolation = Field(
        default="read_committed",
        description="read_uncommitted: also deliver events of open and aborted Kafka transactions",
    )
    strict_timestamps: Flag = Field(
        default=False,
        description="true: refuse links while the topic stores producers' timestamps (message.timestamp.type is not "
        "LogAppendTime); default: warn in the log",
    )
    key_from: Annotated[OneOrMany[KeySource], Field(min_length=1, max_length=2)] = Field(
        default=("group-key",),
        description="sources of the record key, the first that a message has is used: group-key (the annotation "
        "event-streams-group-key, or x-opt-kafka-key), group-id (the property)",
    )
    tombstones: Flag = Field(
        default=False, description="true: an amqp-value null with a key deletes that key (a Kafka null value)"
    )


class ServiceRule(Strict):
    """A responder inside the gateway; it answers to addresses that the requester may send to, or that it came from."""

    match: Match = Field(description=_MATCH_TEXT)
    service: ServiceName = Field(
        description="echo: answers with the application properties and body of the request; subscriptions: the "
        "operations of a subscription manager (`manager`)"
    )
    manager: Name | None = Field(
        default=None, description="subscriptions: name of an entry of `subscriptions` of this scope"
    )


class RedirectRule(Strict):
    """A node in another container: links are refused with amqp:link:redirect, which names that container."""

    match: Match = Field(description=_MATCH_TEXT)
    redirect: Target = Field(
        description="URL of that container, as clients of this scope reach it; the error names host and port, but "
        "cannot indicate TLS: the scheme only determines the port if none is given"
    )
    address: Text | None = Field(
        default=None, description="address at that container, with {captures} of match; default: the same address"
    )
    hostname: str | None = Field(
        default=None,
        min_length=1,
        max_length=255,
        description="host name for clients to use in open, SASL and TLS; default: the host of redirect",
    )


AnyAddressRule = DirectRule | RelayRule | KafkaRule | ServiceRule | RedirectRule
RULES: Final[Mapping[str, type[AnyAddressRule]]] = {
    "direct": DirectRule,
    "relay": RelayRule,
    "kafka": KafkaRule,
    "service": ServiceRule,
    "redirect": RedirectRule,
}
"""Kinds of rules by the key that only they have."""


def rule_kind(value: object) -> type[AnyAddressRule] | None:
    """The kind of a rule in the file; None: it has no such key, or several."""
    found = [kind for key, kind in RULES.items() if key in value] if isinstance(value, dict) else []
    return found[0] if len(found) == 1 else None


def _tag(value: object) -> str | None:
    if not isinstance(value, dict):
        return f"<{type(value).__name__}>"
    kind = rule_kind(value)
    return None if kind is None else f"<{kind.__name__}>"


AddressRule = Annotated[
    Annotated[DirectRule, Tag("<DirectRule>")]
    | Annotated[RelayRule, Tag("<RelayRule>")]
    | Annotated[KafkaRule, Tag("<KafkaRule>")]
    | Annotated[ServiceRule, Tag("<ServiceRule>")]
    | Annotated[RedirectRule, Tag("<RedirectRule>")],
    Discriminator(
        _tag,
        custom_error_type="address_kind",
        custom_error_message=f"needs exactly one of {', '.join([*RULES][:-1])} and {[*RULES][-1]}, which define "
        "what the address is",
    ),
]
