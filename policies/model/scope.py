"""A scope: one AMQP address space with the places it listens at and the containers it connects to."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from policies.model.base import Count, Flag, Name, OneOrMany, Path, Secret, Strict, StrictSection, parsed, upper
from policies.model.bridge import BridgeEntry
from policies.model.rules import AccessRule, AddressRule
from policies.model.units import Duration, Endpoints, PerTime, Place, Size, parse_bind, parse_duration, parse_size

MECHANISMS = ("ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


Mechanism = Annotated[
    Literal["ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-256", "SCRAM-SHA-512"],
    BeforeValidator(upper),
    WithJsonSchema({"type": "string", "enum": [*(name.lower() for name in MECHANISMS), *MECHANISMS]}),
]
_PLAIN_TEXT = "true: allow PLAIN on connections without TLS, where anybody on the path reads the password"


class ListenerTls(Strict):
    """TLS of a listener; files are read again on reload.

    A certificate is checked when the connection is made: the connection stays open if the certificate expires later,
    also after a reload.

    The user of a client certificate (`external`) is its common name; without one, its first URI among the subject
    alternative names, else its first e-mail address, else its first DNS name. A certificate with several common names,
    or with unprintable characters in the name, is not accepted as a login.
    """

    cert: Path = Field(description="certificate chain, PEM, path relative to the policy file")
    key: Path = Field(description="private key of the certificate, PEM, path relative to the policy file")
    client_ca: Path | None = Field(
        default=None,
        description="authorities that must have issued client certificates, PEM; a reload closes connections whose "
        "certificate comes from none of them",
    )
    require_client_cert: Flag = Field(default=False, description="true: refuse clients without a certificate")


class ListenerLimits(StrictSection):
    """Limits of one listener; excess connections are dropped, anything else gets an error that names the limit.

    A reload does not close open connections. `connections`, `users`, `user_links` and the rates continue to count, and
    apply from then on to everything at the listener's address; the other limits apply to connections that are opened
    later. A listener that moves to another address starts counting from zero there.
    """

    connections: Count = Field(default=10_000, description="concurrent connections of this listener")
    users: Count | None = Field(default=None, description="concurrent connections of one user; default: no limit per "
        "user")
    user_links: Count | None = Field(default=None, description="concurrent links of one user; default: no limit per "
        "user")
    user_opens_per_second: Count | None = Field(
        default=None, description="new connections of one user per second; default: no limit per user"
    )
    links: Count = Field(default=1000, description="concurrent links of one connection")
    sessions: Count = Field(default=256, le=65_535, description="concurrent sessions of one connection")
    opens_per_second: Count = Field(default=2000, description="new connections per second")
    handshake: Duration = parsed(parse_duration, "10s", "time limit for TLS, SASL and open")
    max_frame_size: Annotated[Size, Field(ge=512, le=16 * 2**20)] = parsed(
        parse_size, "64KiB", "largest frame that the gateway accepts"
    )
    max_message_size: Annotated[Size, Field(ge=1)] = parsed(parse_size, "128MiB", "largest message that the gateway "
        "accepts")
    memory: Annotated[Size, Field(ge=2**16)] | None = Field(
        default=None,
        description="bytes held for one connection: above half of the limit the peer is slowed down, above the limit "
        "it is refused; default: half of what the process may hold (gateway.memory)",
    )
    user_memory: Annotated[Size, Field(ge=2**16)] | None = Field(
        default=None,
        description="bytes held for all connections of one user: those that hold more than their share are slowed "
        "down above three quarters of the limit, and refused above the limit; default: half of what the process may "
        "hold",
    )
    idle_timeout: Duration = parsed(parse_duration, "60s", "a connection silent for this long is closed; 0s: never")


class ListenerSection(StrictSection):
    """A port at which AMQP clients connect.

    A reload closes connections that the listener would no longer accept: their user, SASL mechanism or certificate
    authority is gone, or the listener now requires `tls` or `require_client_cert` or no longer has
    `allow_plain_without_tls`. If its address (`bind`) is no longer in the scope, they stay if another listener of the
    scope accepts them; a user with a password only if `users` is the same file.
    """

    bind: Place = parsed(parse_bind, "127.0.0.1:5672", "host:port; port 0 lets the system choose")
    advertise: Place | None = Field(
        default=None,
        description="host:port at which clients of other gateway processes reach this listener; redirects name the "
        "first listener of the scope that has it (ownership: sharded)",
    )
    sasl: OneOrMany[Mechanism] = Field(
        default=("ANONYMOUS",), min_length=1, description="mechanisms offered; PLAIN is offered only on TLS; a "
        "client that names an authorization identity has to name its own user"
    )
    users: Path | None = Field(
        default=None,
        description="users file for plain and scram, made with `scopegate users add`; a reload closes the "
        "connections of users that are no longer in it; an empty file is refused, {} means that nobody may log in",
    )
    tls: ListenerTls | None = Field(default=None, description="TLS; default: none")
    allow_plain_without_tls: Flag = Field(default=False, description=_PLAIN_TEXT)
    limits: ListenerLimits = Field(default_factory=ListenerLimits, description="see Limits")

    @property
    def offered(self) -> tuple[str, ...]:
        """The mechanisms a client is really offered: PLAIN only where the password stays private."""
        plain = self.tls is not None or self.allow_plain_without_tls
        return tuple(name for name in self.sasl if plain or name != "PLAIN")


class ConnectorSasl(StrictSection):
    """How the gateway logs in to the container."""

    mechanism: Mechanism = Field(default="ANONYMOUS", description="SASL mechanism")
    user: str | None = Field(default=None, min_length=1, description="user name for plain and scram")
    password: Secret | None = Field(default=None, description="where the password is found")


class ConnectorTls(StrictSection):
    """Certificates for amqps:// URLs: those that the server's is checked against, and the gateway's own."""

    ca: Path | None = Field(default=None, description="certificate authorities of the server, PEM; default: the "
        "system's")
    cert: Path | None = Field(default=None, description="own certificate chain, PEM")
    key: Path | None = Field(default=None, description="private key of the own certificate, PEM")
    verify: Flag = Field(default=True, description="false: accept any server certificate; for experiments only")


Source = Annotated[str, Field(min_length=1, max_length=1024)]
Pause = Annotated[Duration, Field(ge=1)]


class Backoff(StrictSection):
    """Pauses between attempts to reconnect: doubling from min to max, jittered."""

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
    sasl: ConnectorSasl = Field(default_factory=ConnectorSasl, description="see ConnectorSasl")
    tls: ConnectorTls = Field(default_factory=ConnectorTls, description="see ConnectorTls")
    allow_plain_without_tls: Flag = Field(default=False, description=_PLAIN_TEXT)
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


class ScopeSection(StrictSection):
    """One address space: nothing in it is visible from another scope unless an address rule relays there."""

    listen: tuple[ListenerSection, ...] = Field(default=(), description="listeners for client connections")
    connect: tuple[ConnectorSection, ...] = Field(default=(), description="containers that the gateway connects to")
    addresses: tuple[AddressRule, ...] = Field(
        default=(),
        description="types of addresses: match and one of direct, relay, kafka, service, redirect; the first match "
        "wins",
    )
    bridge: tuple[BridgeEntry, ...] = Field(
        default=(), description="events that the gateway itself forwards to another address or container"
    )
    access: tuple[AccessRule, ...] = Field(default=(), description="which users may do what; anything that no entry "
        "allows is denied")
    anonymous_relay: Flag = Field(default=True, description="offer the anonymous terminus (null target)")
    strict_desired: Flag = Field(
        default=False,
        description="true: only clients whose open desired ANONYMOUS-RELAY may attach to the anonymous terminus; "
        "many clients attach without desiring it",
    )
    temporary: Flag = Field(
        default=True,
        description="allow dynamic sources and targets; they need no access entry, and only the connection that "
        "created a node receives from it",
    )
    response_routing: Flag = Field(
        default=True,
        description="offer RESPONSE_ANNOTATIONS_V1_0 and annotate requests (cookies); false: requests into this "
        "scope are rewritten, and $replies.<scope> still accepts responses to requests that were annotated earlier",
    )
    response_rate: PerTime | None = Field(
        default=None,
        description="maximum rate of responses from one user of this scope, or one connector; responses above it are "
        "queued; default: no limit",
    )
