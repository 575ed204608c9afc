"""Where operators reach a running gateway: the admin API (`gateway.admin`)."""

from typing import Annotated, Final, Literal, NamedTuple

from pydantic import Field, StringConstraints

from policies.model.scopes.listen import ListenerTls
from policies.values.base import Flag, Name, OneOrMany, Parser, Secret, StrictSection
from policies.values.units import Bind, is_host, parse_bind

MAX_PATH: Final = 107
"""The maximum length of a unix socket's path on Linux, in bytes (unix(7))."""
MIN_TOKEN: Final = 16
"""The minimum length of a token, in bytes."""
_PLACE: Final = {
    "type": "string",
    "pattern": r"^(off|unix|unix:/.+|.+:[0-9]+)$",
    "examples": ["unix", "unix:/run/gate/admin.sock", "127.0.0.1:8675"],
}
_PLACES: Final = {"anyOf": [_PLACE, {"type": "array", "items": _PLACE, "minItems": 1}]}

AdminRole = Literal["view", "operate"]
"""`operate` includes `view`."""


class UnixSocket(NamedTuple):
    """A unix socket; no path: in the runtime folder of the process, under the id of the gateway."""

    path: str | None = None

    def __str__(self) -> str:
        return "unix" if self.path is None else f"unix:{self.path}"


AdminPlace = UnixSocket | Bind


def parse_admin_places(value: object) -> tuple[AdminPlace, ...]:
    """`unix`, `unix:/path`, `host:port`, a list of these, or `off`."""
    if value is None or value == "off" or value is False:
        return ()
    if isinstance(value, list | tuple) and not isinstance(value, UnixSocket | Bind):
        return _different([parse_admin_place(each) for each in value])
    return (parse_admin_place(value),)


def parse_admin_place(value: object) -> AdminPlace:
    """`unix`, `unix:/path` or `host:port`."""
    if isinstance(value, UnixSocket | Bind):
        return value
    if not isinstance(value, str) or not value:
        raise ValueError('needs "unix", "unix:/path/of/the.sock", "host:port" or "off"')
    if value == "unix":
        return UnixSocket()
    if value.startswith("unix:"):
        return _socket(value.removeprefix("unix:"))
    return parse_bind(value)


def _different(places: list[AdminPlace]) -> tuple[AdminPlace, ...]:
    if not places:
        raise ValueError('needs at least one place; "off" for none')
    if len(set(places)) < len(places):
        raise ValueError("contains the same place twice")
    return tuple(places)


def _socket(path: str) -> UnixSocket:
    if not path.startswith("/") or "\0" in path:
        raise ValueError('needs an absolute path after "unix:", like "unix:/run/scopegate/admin.sock"')
    if len(path.encode()) > MAX_PATH:
        raise ValueError(f"the path of a unix socket may have {MAX_PATH} bytes; this one has {len(path.encode())}")
    return UnixSocket(path)


def _host(value: object) -> str:
    if isinstance(value, str) and ":" not in value and value.isprintable() and "*" not in value and is_host(value):
        return value.lower()
    raise ValueError('needs the name of a host without a port, like "gate.example"')


HostName = Annotated[
    str, Parser(_host, {"type": "string", "examples": ["gate.example"]})
]
Subject = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class AdminToken(Secret):
    """One token: 16 or more characters, as `scopegate keys new` prints them."""

    role: AdminRole = Field(default="view", description="view: read everything; operate: change it, too")


class AdminSection(StrictSection):
    """The admin API, its commands and the console.

    At a unix socket, root and the user of the gateway may see and change everything, and nobody else anything. At a TCP
    port nothing is answered without a token or a client certificate. Answers never contain secrets.
    """

    listen: Annotated[
        tuple[AdminPlace, ...], Parser(parse_admin_places, _PLACES)
    ] = Field(
        default_factory=lambda: (UnixSocket(),),
        description="unix (a socket in the runtime folder of the process, which the commands find), unix:/path, "
        "host:port (needs tokens or certificates), a list of these, or off; a change needs a restart",
        json_schema_extra={"default": "unix"},
    )
    tls: ListenerTls | None = Field(default=None, description="TLS of the host:port; default: none")
    tokens: dict[Name, AdminToken] = Field(
        default_factory=dict,
        max_length=100,
        description="name for the log: where the token is found, and what it allows; read again on reload",
    )
    certificates: dict[Subject, AdminRole] = Field(
        default_factory=dict,
        max_length=1000,
        description="user of a client certificate (see ListenerTls): view or operate",
    )
    hosts: OneOrMany[HostName] = Field(
        default=(),
        description="names under which browsers and clients reach the host:port, beside IP addresses and localhost; "
        "requests with another Host are refused",
    )
    allow_tokens_without_tls: Flag = Field(
        default=False,
        description="true: accept tokens without TLS also if listen is not a loopback address, where anybody on the "
        "path reads them",
    )

    @property
    def ports(self) -> tuple[Bind, ...]:
        """The TCP ports among `listen`."""
        return tuple(each for each in self.listen if isinstance(each, Bind))

    @property
    def sockets(self) -> tuple[UnixSocket, ...]:
        """The unix sockets among `listen`."""
        return tuple(each for each in self.listen if isinstance(each, UnixSocket))
