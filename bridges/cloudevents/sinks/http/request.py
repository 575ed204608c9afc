"""Requests as bytes (RFC 9112): where they go, and their heads. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

_PORTS: Final = {"http": 80, "https": 443}
_JOINED: Final = 16_384
"""Bytes of a body up to which it is copied behind the head, which costs less than a second buffer."""


class Origin(NamedTuple):
    """Where connections go."""

    secure: bool
    host: str
    """A name or an address, without brackets."""
    port: int


class RequestTarget(NamedTuple):
    """The parts of a checked URI that a request needs, without any change of its path and query."""

    origin: Origin
    authority: str
    """As in the URI, without a port that is the scheme's own; the value of `Host`."""
    path: str
    """With the query."""


def target_of(uri: str) -> RequestTarget:
    """Split a checked URI, which has the scheme `http` or `https`, a host, and no user."""
    scheme, _, rest = uri.partition("://")
    at = min((found for mark in "/?#" if (found := rest.find(mark)) >= 0), default=len(rest))
    authority, path = rest[:at], rest[at:].partition("#")[0]
    secure, usual = scheme.lower() == "https", _PORTS[scheme.lower()]
    host, port = _host_and_port(authority, usual)
    origin = Origin(secure, host.strip("[]").lower(), port)
    shown = host if port == usual else authority
    return RequestTarget(origin, shown, path if path.startswith("/") else "/" + path)


def _host_and_port(authority: str, usual: int) -> tuple[str, int]:
    host, colon, port = authority.rpartition(":")
    return (host, int(port or usual)) if colon and "]" not in port else (authority, usual)


def head_start(method: str, target: RequestTarget, fields: Iterable[tuple[str, str]]) -> str:
    """The part of a head that many requests share; raises ValueError for a field with a line break or NUL."""
    lines = f"{method} {target.path} HTTP/1.1\r\nHost: {target.authority}\r\nAccept: */*\r\n"
    return lines + field_lines(fields)


def field_lines(fields: Iterable[tuple[str, str]]) -> str:
    """Encode header fields; raises ValueError for a name or a value with a line break or NUL."""
    lines = [f"{name}: {value}\r\n" for name, value in fields]
    text = "".join(lines)
    if text.count("\n") != len(lines) or text.count("\r") != len(lines) or "\0" in text:
        raise ValueError("a header field has a line break or NUL")
    return text


def request_bytes(start: str, more: str, body: bytes | None) -> list[bytes]:
    """The buffers of a request: `start` and `more` are complete lines of its head; `body` None: it cannot have one."""
    if body is None:
        return [f"{start}{more}\r\n".encode()]
    head = f"{start}{more}Content-Length: {len(body)}\r\n\r\n".encode()
    return [head + body] if len(body) <= _JOINED else [head, body]
