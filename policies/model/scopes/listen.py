"""Ports at which AMQP clients connect, their TLS, SASL and limits (`scopes.<name>.listen`)."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from policies.model.scopes.event_hubs import EventHubsSection
from policies.model.scopes.sasl import PLAIN_DESCRIPTION, Mechanism
from policies.values.base import Count, Flag, OneOrMany, Path, Secret, Strict, StrictSection, parsed
from policies.values.units import Duration, Place, Size, parse_bind, parse_duration, parse_size


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
    key_password: Secret | None = Field(default=None, description="where the password of an encrypted key is found")
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
    allow_plain_without_tls: Flag = Field(default=False, description=PLAIN_DESCRIPTION)
    annotations: Literal["offered", "trust", "never"] = Field(
        default="offered",
        description="when requests carry cookies to receivers whose targets announce response-address-supported: "
        "offered (if the client's open also offers RESPONSE_ANNOTATIONS_V1_0), trust (whatever its open offers, which "
        "deviates from the specification), or never (all requests are rewritten); applies to connections that are "
        "opened afterwards",
    )
    dialect: Literal["amqp", "eventhubs"] = Field(
        default="amqp",
        description="eventhubs: unmodified clients of Azure Event Hubs use this listener; they log in with tokens "
        "(`event_hubs.keys`), so `sasl` has to offer ANONYMOUS, which gives them no rights by itself",
    )
    event_hubs: EventHubsSection | None = Field(default=None, description="dialect eventhubs: its keys and addresses")
    websocket: Annotated[str, Field(pattern=r"^/[!-~]*$", max_length=256)] | None = Field(
        default=None,
        description="path at which clients speak AMQP over WebSockets (subprotocol amqp or AMQPWSB10), such as "
        "/$servicebus/websocket for those of Event Hubs; this listener then accepts nothing else. Browsers are refused "
        "if their page is from another host; default: plain AMQP",
    )
    strict_annotations: Flag = Field(
        default=False,
        description="true: a message with an annotation key that the gateway does not understand, and that does not "
        "begin with x-opt-, ends its link with amqp:not-implemented, as AMQP 3.2.10 says; many clients send such keys",
    )
    limits: ListenerLimits = Field(default_factory=ListenerLimits, description="see Limits")

    @model_validator(mode="after")
    def _complete_dialect(self) -> "ListenerSection":
        if (self.dialect == "eventhubs") != (self.event_hubs is not None):
            raise ValueError("dialect: eventhubs and event_hubs belong together: set both, or neither")
        if self.dialect == "eventhubs" and "ANONYMOUS" not in self.sasl:
            raise ValueError("clients of Event Hubs log in with tokens: sasl has to offer anonymous")
        return self

    @property
    def offered(self) -> tuple[str, ...]:
        """The mechanisms that a client is offered: PLAIN only if the connection keeps the password private."""
        plain = self.tls is not None or self.allow_plain_without_tls
        return tuple(name for name in self.sasl if plain or name != "PLAIN")
