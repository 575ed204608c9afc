"""URLs of services that the gateway itself calls, as they are written in a policy file."""

from __future__ import annotations

from typing import Annotated, Final
from urllib.parse import urlsplit

from policies.values.base import Parser
from policies.values.units import is_host

_EXAMPLE: Final = "http://127.0.0.1:4318/v1/traces"


def parse_http_url(value: object) -> str:
    """`http://host[:port]/path` or `https://…`, without a user, password, query or fragment."""
    if not isinstance(value, str) or not value.startswith(("http://", "https://")):
        raise ValueError(f"needs a URL like {_EXAMPLE} (allowed: http://, https://)")
    try:
        url = urlsplit(value)
        usable = url.hostname is not None and is_host(url.hostname) and url.port != 0
    except ValueError:
        usable = False
    if not usable or not value.isascii() or not value.isprintable() or " " in value:
        raise ValueError(f"needs a host name, and a port up to 65535, like {_EXAMPLE}")
    if "@" in url.netloc:
        raise ValueError("a URL must not contain a user or password: secrets are never written into the policy")
    if url.query or url.fragment:
        raise ValueError("no query and no fragment are allowed here")
    if url.path in ("", "/"):
        raise ValueError(f"needs the path, too, like {_EXAMPLE}")
    return value


HttpUrl = Annotated[
    str,
    Parser(parse_http_url, {"type": "string", "pattern": r"^https?://[^@/?#]+/[^?#]+$", "examples": [_EXAMPLE]}),
]
