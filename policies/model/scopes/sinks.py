"""Where subscriptions may send events: `sinks` of a manager. Everything else is denied."""

import re
from collections.abc import Iterator
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BeforeValidator, Field, model_validator

from policies.values.base import Flag, Name, OneOrMany, Parser, Path, Secret, Strict, StrictSection
from policies.values.hosts import HostError, parse_host
from policies.values.patterns import Pattern, PatternError, parse_pattern

SinkKind = Literal["http", "amqp", "kafka", "mqtt3", "mqtt5", "nats"]
SCHEMES: Final = {
    "http": {"https": 443, "http": 80},
    "amqp": {"amqps": 5671, "amqp": 5672},
    "kafka": {"kafka": 9092},
    "mqtt3": {"mqtts": 8883, "mqtt": 1883},
    "mqtt5": {"mqtts": 8883, "mqtt": 1883},
    "nats": {"tls": 4222, "nats": 4222},
}
"""The schemes of each protocol and their default ports."""
TLS_SCHEMES: Final = frozenset(("https", "amqps", "mqtts", "tls"))
"""The schemes whose connections are encrypted; for Kafka, `tls` of the entry decides."""
_PORTS: Final = {scheme: port for schemes in SCHEMES.values() for scheme, port in schemes.items()}
_URL: Final = re.compile(r"(?P<scheme>[a-z]+)://(?P<hosts>[^/?#@\s\\]+)(?P<path>/[^?#\s\\]*)?")
_PORT: Final = re.compile(r"(?P<host>.*[^:]):(?P<port>[0-9]{1,5})")
_LABEL: Final = re.compile(r"[a-z0-9_-]{1,63}")
_WILD: Final = re.compile(r"\*|[a-z0-9_-]{1,63}")
_EXAMPLE: Final = '"https://*.partner.example/hooks/**"'


class HostPattern(NamedTuple):
    """A host and port; labels `*` match one label, a first label `**` one or more; wildcards match no IP address."""

    host: str
    port: int

    def matches(self, host: str, port: int) -> bool:
        """Whether it is this host, as `policies.values.hosts.parse_host` spells it, and port."""
        if port != self.port:
            return False
        if "*" not in self.host or ":" in host or host.rpartition(".")[2].isdigit():
            return host == self.host
        mine, theirs = self.host.split("."), host.split(".")
        if mine[0] == "**" and len(theirs) >= len(mine):
            mine, theirs = mine[1:], theirs[len(theirs) - len(mine) + 1 :]
        return len(mine) == len(theirs) and all(a in ("*", b) for a, b in zip(mine, theirs, strict=True))


class UrlPattern(NamedTuple):
    """The places that an entry allows: `path` None is any; several hosts only for Kafka, whose list has to be equal."""

    text: str
    scheme: str
    hosts: tuple[HostPattern, ...]
    path: Pattern | str | None

    @property
    def encrypted(self) -> bool:
        """Whether the scheme means TLS."""
        return self.scheme in TLS_SCHEMES

    def matches(self, scheme: str, hosts: tuple[tuple[str, int], ...], path: str) -> bool:
        """Whether a checked URI is one of these places."""
        if scheme != self.scheme or len(hosts) != len(self.hosts):
            return False
        if not all(mine.matches(*theirs) for mine, theirs in zip(self.hosts, hosts, strict=True)):
            return False
        if isinstance(self.path, Pattern):
            return self.path.regex.fullmatch(path[1:]) is not None
        return self.path is None or path in ("", "/")


def parse_url_pattern(value: object) -> UrlPattern:
    """`https://*.partner.example`, `http://10.0.0.1:8080/in/**`, `kafka://k1:9092,k2:9092`; raises ValueError."""
    found = _URL.fullmatch(value) if isinstance(value, str) else None
    if found is None or found["scheme"] not in _PORTS:
        raise ValueError(f"needs a URL like {_EXAMPLE} without user or query (allowed: {', '.join(_PORTS)})")
    hosts = tuple(_host(text, _PORTS[found["scheme"]]) for text in found["hosts"].split(","))
    if len(hosts) > 1 and found["scheme"] != "kafka":
        raise ValueError("only a kafka URL may name several servers")
    return UrlPattern(found[0], found["scheme"], hosts, _path(found["path"]))


def _host(text: str, port: int) -> HostPattern:
    if found := _PORT.fullmatch(text):
        text, port = found["host"], int(found["port"])
    if not 0 < port < 65536:
        raise ValueError("a port is a number from 1 to 65535")
    if "*" not in text:
        return HostPattern(_checked(text), port)
    first, *rest = text.lower().split(".")
    if (first not in ("*", "**") and not _LABEL.fullmatch(first)) or not all(_WILD.fullmatch(label) for label in rest):
        raise ValueError('in a host, "*" must be a whole label, "**" the first one, and the others plain ASCII')
    return HostPattern(text.lower(), port)


def _checked(text: str) -> str:
    try:
        return parse_host(text)
    except HostError as error:
        raise ValueError(str(error)) from None


def _path(text: str | None) -> Pattern | str | None:
    if text is None or text == "/":
        return None if text is None else "/"
    try:
        return parse_pattern(text[1:])
    except PatternError as error:
        raise ValueError(f"the path {error}") from None


Network = IPv4Network | IPv6Network | Literal["public"]


def parse_network(value: object) -> Network:
    """`public`, or a network in CIDR form."""
    if value == "public":
        return "public"
    try:
        if isinstance(value, str | IPv4Network | IPv6Network):
            return ip_network(value)
    except ValueError:
        pass
    raise ValueError('needs public or a network without host bits, like "10.20.0.0/16" or "fd00::/8"')


Url = Annotated[
    UrlPattern,
    Parser(
        lambda value: value if isinstance(value, UrlPattern) else parse_url_pattern(value),
        {"type": "string", "examples": ["https://*.partner.example"]},
    ),
]
Networks = Annotated[
    Network, Parser(parse_network, {"type": "string", "examples": ["public", "10.20.0.0/16"]})
]
AddressPattern = Annotated[
    Pattern,
    Parser(
        lambda value: value if isinstance(value, Pattern) else parse_pattern(value),
        {"type": "string", "minLength": 1, "maxLength": 1024, "examples": ["svc/**"]},
    ),
]
_TOPIC: Final = re.compile(r"[A-Za-z0-9._*-]{1,249}")


def _topic(value: object) -> str:
    if isinstance(value, str) and _TOPIC.fullmatch(value):
        return value
    raise ValueError('needs a topic name, in which "*" stands for any text, like "out.*"')


TopicPattern = Annotated[
    str, Parser(_topic, {"type": "string", "examples": ["out.*"]})
]
On = Annotated[bool, BeforeValidator(lambda value: {"on": True, "off": False}.get(value, value))]


class SinkTls(StrictSection):
    """TLS of a sink: the authorities that verify it, and the gateway's own certificate."""

    ca: Path | None = Field(default=None, description="certificate authorities of the sink, PEM; default: the "
        "system's")
    cert: Path | None = Field(default=None, description="own certificate chain, PEM")
    key: Path | None = Field(default=None, description="private key of the own certificate, PEM")
    key_password: Secret | None = Field(default=None, description="where the password of an encrypted key is found")


class SinkEntry(Strict):
    """Where subscriptions may send events: one of `to`, `local`, `connector` and `cluster`; the first match decides."""

    protocol: OneOrMany[SinkKind] = Field(min_length=1, description="protocol or list of protocols")
    to: Url | None = Field(
        default=None,
        description="URL of the sinks: in the host, * is one label and a first ** is one or more (neither matches an "
        "IP address); the path is a pattern as in addresses, default: any; kafka: exactly these bootstrap servers, "
        "and with them the brokers that they advertise",
    )
    local: AddressPattern | None = Field(
        default=None, description="amqp: pattern of addresses of this scope (sink amqp:///address); the owner of the "
        "subscription needs the right to send there"
    )
    connector: Name | None = Field(
        default=None, description="amqp: connector of this scope whose container is the sink, reached with its login"
    )
    address: AddressPattern | None = Field(
        default=None, description="pattern of addresses at the container of `connector`, or of amqp URLs; default: any"
    )
    cluster: Name | None = Field(default=None, description="kafka: cluster that the sink kafka:/// means")
    topics: OneOrMany[TopicPattern] = Field(
        default=("*",),
        min_length=1,
        description="kafka: topics, in which * is any text, but reaches no internal topic (names that start with __, "
        "the journal, dead-letter topics): name them literally",
    )
    networks: OneOrMany[Networks] = Field(
        default=("public",),
        min_length=1,
        description="addresses to which the host may resolve: public, or networks in CIDR form; with kafka URLs it "
        "has no effect, for the servers are named exactly",
    )
    tls: SinkTls | None = Field(default=None, description="certificates, see SinkTls; default: the system's "
        "authorities")
    handshake: On = Field(
        default=True,
        description="http: on or true (nothing is sent to a sink before it has consented, see HandshakeSection), off "
        "or false",
    )
    allow_plain_without_tls: Flag = Field(
        default=False,
        description="true: send passwords, tokens and secret headers of subscriptions without TLS, where anybody on "
        "the path reads them",
    )

    @property
    def encrypted(self) -> bool:
        """Whether connections to the URL of this entry use TLS."""
        return self.tls is not None if "kafka" in self.protocol else self.to is not None and self.to.encrypted

    @model_validator(mode="after")
    def _one_place(self) -> "SinkEntry":
        places = [key for key in ("to", "local", "connector", "cluster") if getattr(self, key) is not None]
        if len(places) != 1:
            raise ValueError("needs exactly one of to, local, connector and cluster, which define where the sink is")
        for wrong in _misfits(self, places[0]):
            raise ValueError(wrong)
        return self


def _misfits(entry: SinkEntry, place: str) -> Iterator[str]:
    """Mistakes in the keys of an entry that depend on its protocol."""
    wanted = {"local": "amqp", "connector": "amqp", "cluster": "kafka"}.get(place)
    for kind in entry.protocol:
        if wanted is not None and kind != wanted:
            yield f"{place} is for protocol {wanted}, not {kind}"
        if entry.to is not None and entry.to.scheme not in SCHEMES[kind]:
            yield f"protocol {kind} has no scheme {entry.to.scheme} (allowed: {', '.join(SCHEMES[kind])})"
        if kind != "kafka" and entry.topics != ("*",):
            yield "topics are for protocol kafka"
        if kind != "amqp" and entry.address is not None:
            yield "address is for protocol amqp"
    if entry.to is not None and entry.to.path is not None and entry.to.scheme not in SCHEMES["http"]:
        yield "only http and https URLs have a path here (amqp: address)"
    if entry.tls is not None and entry.to is None:
        yield f"tls is for URLs (to); the {place} has its own"
    if place == "local" and entry.address is not None:
        yield "local is itself the pattern of addresses"
    if entry.allow_plain_without_tls:
        yield from _no_use_of_plain(entry, place)


def _no_use_of_plain(entry: SinkEntry, place: str) -> Iterator[str]:
    """The reason why `allow_plain_without_tls` has no effect in this entry."""
    if entry.to is None:
        yield f"allow_plain_without_tls is for URLs (to); the {place} has its own login"
    elif entry.encrypted:
        has = "this entry has tls" if "kafka" in entry.protocol else f"{entry.to.scheme} URLs have TLS"
        yield f"allow_plain_without_tls is for sinks without TLS; {has}"


class OAuthEntry(Strict):
    """A token endpoint at which credentials of type REFRESHTOKEN may be renewed."""

    endpoint: str = Field(description="URL of the token endpoint, exactly as subscriptions name it; https")
    client: str = Field(min_length=1, max_length=256, description="client id of the gateway at this endpoint")
    secret: Secret | None = Field(default=None, description="where the client secret is found; default: none")
    networks: OneOrMany[Networks] = Field(
        default=("public",), min_length=1, description="addresses to which the host may resolve"
    )
    tls: SinkTls | None = Field(default=None, description="certificates, see SinkTls; default: the system's "
        "authorities")

    @model_validator(mode="after")
    def _exact(self) -> "OAuthEntry":
        try:
            found = parse_url_pattern(self.endpoint)
        except ValueError as error:
            raise ValueError(f"endpoint {error}") from None
        if found.scheme != "https" or "*" in self.endpoint:
            raise ValueError("endpoint needs one https URL without wildcards")
        return self
