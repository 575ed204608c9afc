"""Where a scope offers HTTP to its clients: the API of its subscription managers. Not the operator's port."""

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import Field

from policies.model.scopes.listen import ListenerTls
from policies.values.base import Count, Flag, OneOrMany, Parser, Path, StrictSection, parsed
from policies.values.hosts import HostError, parse_host
from policies.values.units import Duration, PerTime, Place, Size, parse_bind, parse_duration, parse_rate, parse_size

ApiAuth = Literal["basic", "certificate", "anonymous"]


def _public_url(value: object) -> str:
    try:
        if isinstance(value, str) and value.isprintable() and not set(value) & set(' \\@?#"<>'):
            url = urlsplit(value)
            parse_host(f"[{url.hostname}]" if url.hostname and ":" in url.hostname else url.hostname or "")
            if url.scheme in ("https", "http") and (url.port is None or url.port > 0):
                return value.rstrip("/")
    except (ValueError, HostError):
        pass
    raise ValueError('needs a URL like "https://events.example" without user, query or fragment')


PublicUrl = Annotated[
    str, Parser(_public_url, {"type": "string", "examples": ["https://events.example"]})
]


class ApiLimits(StrictSection):
    """Limits of one `api` listener."""

    connections: Count = Field(default=1000, description="concurrent connections")
    body: Annotated[Size, Field(ge=1024, le=2**20)] = parsed(parse_size, "64KiB", "largest request body, 1KiB to 1MiB")
    body_time: Annotated[Duration, Field(ge=100)] = parsed(parse_duration, "10s", "time limit for a request body")
    user_requests: PerTime = parsed(parse_rate, "20/s", "requests of one user, or of one address where users are "
        "anonymous")


class ApiSection(StrictSection):
    """A port at which clients of this scope manage subscriptions over HTTP."""

    bind: Place = parsed(parse_bind, "127.0.0.1:8080", "host:port; port 0 lets the system choose")
    tls: ListenerTls | None = Field(default=None, description="TLS; default: none")
    auth: OneOrMany[ApiAuth] = Field(
        default=("basic",),
        min_length=1,
        description="how clients log in: basic (user and password of `users`), certificate (the user is that of the "
        "client certificate, see ListenerTls), anonymous (no login; the user is anonymous)",
    )
    users: Path | None = Field(
        default=None, description="users file for basic, made with `scopegate users add`; read again on reload"
    )
    allow_basic_without_tls: Flag = Field(
        default=False, description="true: accept passwords without TLS, where anybody on the path reads them"
    )
    public_url: PublicUrl | None = Field(
        default=None,
        description="URL under which sinks reach this port, for consent by callback; default: none is offered",
    )
    limits: ApiLimits = Field(default_factory=ApiLimits, description="see ApiLimits")
