"""Values with units and network addresses, as they are written in a policy file.

Each type is an ordinary value at run time (`int`, `NamedTuple`), and declares its text form for the JSON Schema.
"""

from __future__ import annotations

import re
from typing import Annotated, Final, NamedTuple
from urllib.parse import urlsplit

from pydantic.json_schema import JsonSchemaValue

from policies.values.base import Parser


class Millis(int):
    """A duration in whole milliseconds, the unit of every clock argument of the gateway."""

    @property
    def seconds(self) -> float:
        """The same duration in seconds, for asyncio."""
        return self / 1000


class Bind(NamedTuple):
    """The host and port of a listener; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Endpoint(NamedTuple):
    """The address of a container that a connector may connect to."""

    tls: bool
    host: str
    port: int

    def __str__(self) -> str:
        return f"{'amqps' if self.tls else 'amqp'}://{Bind(self.host, self.port)}"


class Rate(NamedTuple):
    """A number of events per unit of time."""

    number: int
    per_ms: int

    def __str__(self) -> str:
        return f"{self.number}/{next(unit for unit, size in _DURATIONS.items() if size == self.per_ms)}"


_DURATIONS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SIZES: Final = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
}
_DURATION_PATTERN: Final = r"^[0-9]{1,9}(ms|s|m|h|d)$"
_RATE_PATTERN: Final = r"^[1-9][0-9]{0,5}/(s|m|h)$"
_SIZE_PATTERN: Final = r"^[0-9]{1,9}(B|kB|MB|GB|KiB|MiB|GiB)$"
_PLACE: Final = re.compile(r"(?:\[(?P<six>[0-9a-fA-F:.]+)\]|(?P<host>[A-Za-z0-9_.-]+)):(?P<port>[0-9]{1,5})")
_DEFAULT_PORTS: Final = {"amqp": 5672, "amqps": 5671}


def _scaled(value: object, pattern: str, units: dict[str, int], example: str) -> int:
    if not isinstance(value, str) or not (found := re.fullmatch(pattern, value, re.ASCII)):
        raise ValueError(f"needs a whole number with a unit, like {example} (allowed: {', '.join(units)})")
    unit = found.group(1)
    return int(value.removesuffix(unit)) * units[unit]


def parse_duration(value: object) -> Millis:
    """`250ms`, `10s`, `5m`, `2h` or `30d`."""
    if isinstance(value, Millis):
        return value
    return Millis(_scaled(value, _DURATION_PATTERN, _DURATIONS, '"10s"'))


def parse_size(value: object) -> int:
    """`512B`, `64KiB`, `128MiB` …; a number without a unit is refused because it would be ambiguous."""
    return _scaled(value, _SIZE_PATTERN, _SIZES, '"64KiB"')


def parse_rate(value: object) -> Rate:
    """`100/s`, `20/m` or `5/h`."""
    if isinstance(value, Rate):
        return value
    if not isinstance(value, str) or not re.fullmatch(_RATE_PATTERN, value, re.ASCII):
        raise ValueError('needs a whole number and a time, like "100/s" (allowed: /s, /m, /h; 1 to 999999)')
    count, unit = value.split("/")
    return Rate(int(count), _DURATIONS[unit])


def parse_bind(value: object) -> Bind:
    """`host:port` or `[v6]:port`."""
    if isinstance(value, Bind):
        return value
    found = _PLACE.fullmatch(value) if isinstance(value, str) else None
    if found is None or int(found["port"]) > 65535:
        raise ValueError('needs "host:port" with a port up to 65535, like "127.0.0.1:5672" or "[::1]:5672"')
    return Bind(found["six"] or found["host"], int(found["port"]))


def parse_bind_or_off(value: object) -> Bind | None:
    """`host:port`, or `off`."""
    return None if value is None or value == "off" or value is False else parse_bind(value)


def parse_endpoint(value: object) -> Endpoint:
    """`amqp://host[:port]` or `amqps://host[:port]`; user and password have their own keys."""
    if isinstance(value, Endpoint):
        return value
    if not isinstance(value, str) or not value.startswith(("amqp://", "amqps://")):
        raise ValueError('needs a URL like "amqps://broker.example:5671" (allowed: amqp://, amqps://)')
    scheme, place = value.split("://", 1)
    if "@" in place:
        raise ValueError("no user or password is allowed here; write them as sasl: {user, password: {env: NAME}}")
    return Endpoint(scheme == "amqps", *_url_place(place.removesuffix("/"), _DEFAULT_PORTS[scheme]))


def _url_place(place: str, port: int) -> Bind:
    try:
        found = parse_bind(place if re.search(r":[0-9]+$", place) else f"{place}:{port}")
    except ValueError:
        raise ValueError("needs host[:port] after the scheme and nothing after that") from None
    if not is_host(found.host):
        raise ValueError(f"{found.host!r} is not a host name (1 to 63 characters per label, 253 in total)")
    return found


def is_host(name: str) -> bool:
    """Whether this is a name that DNS allows (RFC 1035, 2.3.4), or an IPv6 address."""
    if ":" in name:
        return True
    labels = name.removesuffix(".").split(".")
    return len(name) <= 253 and all(0 < len(_ascii(label)) <= 63 for label in labels)


def _ascii(label: str) -> str:
    """The label in its ASCII form (RFC 5890); empty if it is not a legal label."""
    try:
        return label.encode("idna").decode()
    except UnicodeError:
        return ""


def parse_endpoints(value: object) -> tuple[Endpoint, ...]:
    """One URL, or a list of URLs in the order they are tried."""
    urls = value if isinstance(value, list | tuple) and not isinstance(value, Endpoint) else [value]
    if not urls:
        raise ValueError("needs at least one URL")
    return tuple(parse_endpoint(url) for url in urls)


def parse_state(value: object) -> str:
    """`memory`, or the URL of a Redis server."""
    if not isinstance(value, str) or not (value == "memory" or value.startswith(("redis://", "rediss://"))):
        raise ValueError("must be memory or a URL like redis://host:6379/0")
    if "@" in value:
        raise ValueError("a Redis URL must not contain a user or password: secrets are never written into the policy")
    if value != "memory":
        _check_redis(value)
    return value


def _check_redis(value: str) -> None:
    try:
        url = urlsplit(value)
        usable = bool(url.hostname) and (url.port is None or url.port > 0)
    except ValueError:
        usable = False
    if not usable or not re.fullmatch(r"/?[0-9]{0,4}", url.path):
        raise ValueError("must be memory or a URL like redis://host:6379/0")


def with_unit(value: int, pattern: str) -> str:
    """A value as a file says it where it has the form `pattern`: in the largest unit that makes a whole number."""
    units = {_DURATION_PATTERN: _DURATIONS, _SIZE_PATTERN: _SIZES}.get(pattern)
    if units is None:
        return str(value)
    size, unit = max((size, unit) for unit, size in units.items() if value % size == 0)
    return f"{value // size}{unit}"


def _text(pattern: str | None = None, *examples: str) -> JsonSchemaValue:
    schema: JsonSchemaValue = {"type": "string", "examples": list(examples)}
    return schema | ({"pattern": pattern} if pattern else {})


_URL = _text(r"^amqps?://[^@/]+/?$", "amqps://broker.example:5671")

Duration = Annotated[Millis, Parser(parse_duration, _text(_DURATION_PATTERN, "10s"))]
Size = Annotated[int, Parser(parse_size, _text(_SIZE_PATTERN, "64KiB"))]
PerTime = Annotated[Rate, Parser(parse_rate, _text(_RATE_PATTERN, "100/s"))]
Place = Annotated[Bind, Parser(parse_bind, _text(r"^.+:[0-9]+$", "127.0.0.1:5672"))]
PlaceOrOff = Annotated[
    Bind | None,
    Parser(parse_bind_or_off, _text(r"^(off|.+:[0-9]+)$", "127.0.0.1:8672", "off")),
]
Target = Annotated[Endpoint, Parser(parse_endpoint, _URL)]
Endpoints = Annotated[
    tuple[Endpoint, ...],
    Parser(parse_endpoints, {"anyOf": [_URL, {"type": "array", "items": _URL, "minItems": 1}]}),
]
State = Annotated[
    str,
    Parser(parse_state, _text(r"^(memory|rediss?://[^@]+)$", "memory", "redis://127.0.0.1:6379/0")),
]
