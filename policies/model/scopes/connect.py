"""Containers that the gateway connects to (`scopes.<name>.connect`)."""

from typing import Annotated, Literal

from pydantic import Field

from policies.model.scopes.sasl import PLAIN_DESCRIPTION, Mechanism
from policies.values.base import Count, Flag, Name, Path, Secret, Strict, StrictSection, parsed
from policies.values.units import Duration, Endpoints, parse_duration


class ConnectorSasl(StrictSection):
    """How the gateway logs in to the container."""

    mechanism: Mechanism = Field(default="ANONYMOUS", description="SASL mechanism")
    user: str | None = Field(default=None, min_length=1, description="user name for plain and scram")
    password: Secret | None = Field(default=None, description="where the password is found")


class ConnectorTls(StrictSection):
    """TLS of amqps:// URLs: the authorities that verify the server, and the gateway's own certificate."""

    ca: Path | None = Field(default=None, description="certificate authorities of the server, PEM; default: the "
        "system's")
    cert: Path | None = Field(default=None, description="own certificate chain, PEM")
    key: Path | None = Field(default=None, description="private key of the own certificate, PEM")
    key_password: Secret | None = Field(default=None, description="where the password of an encrypted key is found")
    verify: Flag = Field(default=True, description="false: accept any server certificate; for experiments only")


Source = Annotated[str, Field(min_length=1, max_length=1024)]
Pause = Annotated[Duration, Field(ge=1)]


class Backoff(StrictSection):
    """Pauses between attempts to reconnect: doubling from min to max, jittered.

    After a connection that was open for 5 s or longer, the next pause is min again.
    """

    min: Pause = parsed(parse_duration, "250ms", "first pause")
    max: Pause = parsed(parse_duration, "30s", "longest pause")


class ConnectorReplies(StrictSection):
    """Where the container sends the responses to requests from other scopes."""

    address: str = Field(
        default="dynamic",
        min_length=1,
        max_length=1024,
        description="dynamic (a node that the container creates for each connection; if it creates none, as "
        "gateway), gateway ($replies.<scope>, for a container that connects to a listener of this scope), or the "
        "name of a queue at the container for this gateway alone, where responses wait while the gateway is down",
    )
    ids: Literal["both", "message-id"] = Field(
        default="both",
        description="which ids of a rewritten request identify its response, if address is not gateway: both (the "
        "container may answer with either in correlation-id), or message-id (correlation-id is left unchanged)",
    )


class PullEntry(Strict):
    """A queue at the container that the gateway receives from; its messages go to an address of this scope.

    A message is accepted at the container when it was accepted here. Pulls need no access entries: access rules are
    for clients.
    """

    source: Source = Field(alias="from", description="address at the container, usually a queue")
    to: Source = Field(
        description="address of this scope, to which the messages go as if their sender had attached there; an entry "
        "of addresses defines what it is and where it leads"
    )
    credit: Count = Field(default=1000, le=100_000, description="maximum number of messages in flight, limited by "
        "the credit of `to`")


class ConnectorSection(Strict):
    """An AMQP container that the gateway connects to; address rules name it in `relay`."""

    name: Name = Field(description="name of the connector in address rules")
    to: Endpoints = Field(description="URL or list of URLs, tried in turn")
    required: Flag = Field(
        default=False,
        description="true: the gateway is not ready (/readyz answers 503) while it is not connected; "
        "false: /readyz only reports it",
    )
    sasl: ConnectorSasl = Field(default_factory=ConnectorSasl, description="see ConnectorSasl")
    tls: ConnectorTls = Field(default_factory=ConnectorTls, description="see ConnectorTls")
    allow_plain_without_tls: Flag = Field(default=False, description=PLAIN_DESCRIPTION)
    container_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="container id that the peer sees; default: gateway.id",
    )
    idle_timeout: Duration = parsed(
        parse_duration, "60s", "a connection silent for this long is closed and reopened; 0s: never"
    )
    backoff: Backoff = Field(default_factory=Backoff, description="see Backoff")
    replies: ConnectorReplies = Field(default_factory=ConnectorReplies, description="see ConnectorReplies")
    annotations: Literal["offered", "trust", "never"] = Field(
        default="offered",
        description="when requests carry cookies to targets that announce response-address-supported: offered (if "
        "the container also offers RESPONSE_ANNOTATIONS_V1_0), trust (whatever it offers, which deviates from the "
        "specification), or never (all requests are rewritten)",
    )
    strict_annotations: Flag = Field(
        default=False,
        description="true: a message of the container with an annotation key that the gateway does not understand, and "
        "that does not begin with x-opt-, ends its link with amqp:not-implemented, as AMQP 3.2.10 says; messages for "
        "pulls and bridges, and responses, are rejected",
    )
    use_relay: Flag = Field(
        default=False,
        description="true: desire ANONYMOUS-RELAY, and if it is offered send messages whose own to is the "
        "destination over one link to the null target; false: always use a link for each address",
    )
    require_event_streams: Flag = Field(
        default=False,
        description="true: desire AMQP_EVENT_STREAMS_V1_0, and close the connection with amqp:not-implemented if the "
        "container does not offer it; false: desire it for bridges, and read plainly without it",
    )
    pull: tuple[PullEntry, ...] = Field(
        default=(), description="queues at the container whose messages the gateway fetches and sends to an address "
        "of this scope"
    )
