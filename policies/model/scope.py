"""A scope: one AMQP address space with the places it listens at and the containers it connects to."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from policies.model.base import Count, Flag, Name, OneOrMany, Path, Secret, Strict, StrictSection, parsed
from policies.model.bridge import BridgeEntry
from policies.model.rules import AccessRule, AddressRule
from policies.model.units import Duration, Endpoints, PerTime, Place, Size, parse_bind, parse_duration, parse_size

MECHANISMS = ("ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-256", "SCRAM-SHA-512")
PASSWORD_MECHANISMS = frozenset({"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"})


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


Mechanism = Annotated[
    Literal["ANONYMOUS", "PLAIN", "EXTERNAL", "SCRAM-SHA-256", "SCRAM-SHA-512"],
    BeforeValidator(_upper),
    WithJsonSchema({"type": "string", "enum": [*(name.lower() for name in MECHANISMS), *MECHANISMS]}),
]
_PLAIN_TEXT = "true: allow PLAIN on connections without TLS, where anybody on the path reads the password"


class ListenerTls(Strict):
    """TLS of a listener; files are read again on reload.

    A certificate counts when the connection is made: one that expires later does not close it, nor does a reload.

    The user of a client certificate (`external`) is its common name; without one its first URI among the subject
    alternative names, else its first e-mail address, else its first DNS name. With several common names, or
    unprintable characters in the name, it is no login.
    """

    cert: Path = Field(description="certificate chain, PEM, path from the policy file")
    key: Path = Field(description="private key of the certificate, PEM, path from the policy file")
    client_ca: Path | None = Field(
        default=None,
        description="authorities client certificates must come from, PEM; a reload closes the connections whose "
        "certificate comes from none of them",
    )
    require_client_cert: Flag = Field(default=False, description="true: refuse clients without a certificate")


class ListenerLimits(StrictSection):
    """What one listener grants; more connections are dropped, more of the rest gets an error that names the limit.

    A reload closes nothing that is open. `connections`, `users`, `user_links` and the rates go on counting, and
    hold from then on for everything that comes to the listener's address; the others hold for connections that are
    opened after it. A listener that moves to another address counts from nothing there.
    """

    connections: Count = Field(default=10_000, description="connections of this listener at a time")
    users: Count | None = Field(default=None, description="connections of one user at a time; default: no own limit")
    user_links: Count | None = Field(default=None, description="links of one user at a time; default: no own limit")
    user_opens_per_second: Count | None = Field(
        default=None, description="new connections of one user per second; default: no own limit"
    )
    links: Count = Field(default=1000, description="links of one connection at a time")
    sessions: Count = Field(default=256, le=65_535, description="sessions of one connection at a time")
    opens_per_second: Count = Field(default=2000, description="new connections per second")
    handshake: Duration = parsed(parse_duration, "10s", "time to finish TLS, SASL and open")
    max_frame_size: Annotated[Size, Field(ge=512, le=16 * 2**20)] = parsed(
        parse_size, "64KiB", "largest frame the gateway takes"
    )
    max_message_size: Annotated[Size, Field(ge=1)] = parsed(parse_size, "128MiB", "largest message the gateway takes")
    memory: Annotated[Size, Field(ge=2**16)] | None = Field(
        default=None,
        description="bytes held for one connection: above half of it the peer is slowed down, above it refused; "
        "default: half of what the process may hold (gateway.memory)",
    )
    user_memory: Annotated[Size, Field(ge=2**16)] | None = Field(
        default=None,
        description="bytes held for all connections of one user: those that hold more than their part are slowed down "
        "above three quarters, refused above it; default: half of what the process may hold",
    )
    idle_timeout: Duration = parsed(parse_duration, "60s", "a connection silent for this long is closed; 0s: never")


class ListenerSection(StrictSection):
    """One place where AMQP clients connect.

    A reload closes the connections that the listener would not accept now: their user, SASL mechanism or authority
    is gone, or the listener asks for `tls` or `require_client_cert` or no longer has `allow_plain_without_tls`.
    Where its address (`bind`) is gone from the scope, they stay if another listener of the scope accepts them; a
    user with a password only where `users` is the same file.
    """

    bind: Place = parsed(parse_bind, "127.0.0.1:5672", "host:port; port 0 lets the system choose")
    advertise: Place | None = Field(
        default=None,
        description="host:port where clients of other gateway processes reach this listener; redirects name the "
        "first listener of the scope that has it (ownership: sharded)",
    )
    sasl: OneOrMany[Mechanism] = Field(
        default=("ANONYMOUS",), min_length=1, description="mechanisms offered; PLAIN is offered only on TLS; "
        "a client that names an authorization identity has to name its user"
    )
    users: Path | None = Field(
        default=None,
        description="users file for plain and scram, made with `scopegate users add`; a reload closes the connections "
        "of users that are no longer in it; an empty file is refused, {} says that nobody may log in",
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
    """How the gateway introduces itself."""

    mechanism: Mechanism = Field(default="ANONYMOUS", description="SASL mechanism")
    user: str | None = Field(default=None, min_length=1, description="user name for plain and scram")
    password: Secret | None = Field(default=None, description="where the password is found")


class ConnectorTls(StrictSection):
    """How a connector checks the server, and its own certificate; used for amqps:// URLs."""

    ca: Path | None = Field(default=None, description="authorities of the server, PEM; default: the system's")
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
        description="dynamic (a node the container makes for each connection; where it makes none, as gateway), "
        "gateway ($replies.<scope>, for a container that connects to a listener of this scope), or the name of a queue "
        "of this gateway's own there, where responses wait while the gateway is away",
    )
    ids: Literal["both", "message-id"] = Field(
        default="both",
        description="which ids of a rewritten request bring its response home, where address is not gateway: both "
        "(the container may answer with either in correlation-id), or message-id (correlation-id stays as it was)",
    )


class PullEntry(Strict):
    """A queue at the container that the gateway receives from; what comes goes to an address of this scope.

    The message is accepted there when it was accepted here. The policy itself allows it: access rules are for clients.
    """

    source: Source = Field(alias="from", description="address at the container; a queue, usually")
    to: Source = Field(
        description="address of this scope, where the messages go as if their sender had attached there; what it is "
        "and where it leads, an entry of addresses says"
    )
    credit: Count = Field(default=1000, le=100_000, description="messages in flight; never more than `to` takes")


class ConnectorSection(Strict):
    """One AMQP container the gateway connects to; address rules name it in `relay`."""

    name: Name = Field(description="what address rules call it")
    to: Endpoints = Field(description="URL or list of URLs, tried in turn")
    sasl: ConnectorSasl = Field(default_factory=ConnectorSasl, description="see ConnectorSasl")
    tls: ConnectorTls = Field(default_factory=ConnectorTls, description="see ConnectorTls")
    allow_plain_without_tls: Flag = Field(default=False, description=_PLAIN_TEXT)
    container_id: str | None = Field(
        default=None,
        min_length=1,
        max_length=256,
        description="container id the peer sees; default: gateway.id",
    )
    idle_timeout: Duration = parsed(
        parse_duration, "60s", "a connection silent for this long is closed and made anew; 0s: never"
    )
    backoff: Backoff = Field(default_factory=Backoff, description="see Backoff")
    replies: ConnectorReplies = Field(default_factory=ConnectorReplies, description="see ConnectorReplies")
    annotations: Literal["offered", "trust", "never"] = Field(
        default="offered",
        description="requests carry cookies to targets that announce response-address-supported, if the container "
        "offers RESPONSE_ANNOTATIONS_V1_0 too: offered; whatever it offers, which leaves the specification: trust; "
        "to none, all are rewritten: never",
    )
    use_relay: Flag = Field(
        default=False,
        description="true: desire ANONYMOUS-RELAY, and where it is offered send messages whose own to is the "
        "destination over one link to the null target; false: always a link for each address",
    )
    require_event_streams: Flag = Field(
        default=False,
        description="true: desire AMQP_EVENT_STREAMS_V1_0, and close with amqp:not-implemented where the container "
        "does not offer it; false: desire it for bridges, and work plainly without",
    )
    pull: tuple[PullEntry, ...] = Field(
        default=(), description="queues there whose messages the gateway fetches and sends to an address of this scope"
    )


class ScopeSection(StrictSection):
    """One address space: nothing in it is visible from another scope unless an address rule relays there."""

    listen: tuple[ListenerSection, ...] = Field(default=(), description="places where clients connect")
    connect: tuple[ConnectorSection, ...] = Field(default=(), description="containers the gateway connects to")
    addresses: tuple[AddressRule, ...] = Field(
        default=(),
        description="what addresses are: match and one of direct, relay, kafka, service, redirect; first match wins",
    )
    bridge: tuple[BridgeEntry, ...] = Field(
        default=(), description="events that the gateway itself moves to another address or container"
    )
    access: tuple[AccessRule, ...] = Field(default=(), description="who may do what; what no entry allows is denied")
    anonymous_relay: Flag = Field(default=True, description="offer the anonymous terminus (null target)")
    strict_desired: Flag = Field(
        default=False,
        description="true: only clients whose open desired ANONYMOUS-RELAY may attach to the anonymous terminus; many "
        "clients do so without",
    )
    temporary: Flag = Field(
        default=True,
        description="allow dynamic sources and targets; they need no access entry, and only the connection that made a "
        "node receives from it",
    )
    response_routing: Flag = Field(
        default=True,
        description="offer RESPONSE_ANNOTATIONS_V1_0 and annotate requests (cookies); false: requests into this scope "
        "are rewritten, and $replies.<scope> stays for answers to requests that were annotated before",
    )
    response_rate: PerTime | None = Field(
        default=None,
        description="how many responses one user of this scope, or one connector, may send home in a time; what "
        "comes faster waits for its turn; default: no limit",
    )
