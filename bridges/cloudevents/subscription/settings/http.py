"""Settings of HTTP sinks (CE 3.2.2.1). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from bridges.cloudevents.model.members import Check, InvalidMember, Members, object_value, one_of
from bridges.cloudevents.model.strict_json import pointer
from bridges.cloudevents.model.values import HttpSettings, Json

SECRET_HEADERS: Final = "x-secretheaders"  # noqa: S105 (the name of a setting)
MAX_HEADERS: Final = 32
MAX_VALUE: Final = 4096
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}", re.ASCII)
_VALUE: Final = re.compile(r"[ -~\t]*", re.ASCII)
_RESERVED: Final = frozenset(
    ("host", "transfer-encoding", "connection", "te", "upgrade", "authorization", "cookie", "trailer", "expect",
     "keep-alive", "user-agent", "set-cookie", "http2-settings")
)
_RESERVED_PREFIXES: Final = ("content-", "ce-", "webhook-", "proxy-", "scopegate-")


def http_settings(members: Members, stored: Mapping[str, str]) -> HttpSettings:
    """Parse the settings; `stored` are the secret headers in the store, which null values keep."""
    headers = members.take("headers", _headers, ())
    secret = members.take(SECRET_HEADERS, _secret_headers(stored), ())
    both = {name.lower() for name, _ in headers} & {name.lower() for name, _ in secret}
    if both:
        members.report(SECRET_HEADERS, f"also in headers: {', '.join(sorted(both))}")
    return HttpSettings(
        headers=headers,
        secret_headers=secret,
        method=members.take("method", one_of("POST", "PUT", "PATCH"), "POST"),
        mode=members.take("x-mode", one_of("binary", "structured", "batched"), "binary"),
    )


def _headers(value: Json) -> tuple[tuple[str, str], ...]:
    return tuple(_entries(value, ()))


def _secret_headers(stored: Mapping[str, str]) -> Check[tuple[tuple[str, str], ...]]:
    """Parse secret headers; null keeps the stored value. `authorization` is allowed: its value is a secret."""

    def check(value: Json) -> tuple[tuple[str, str], ...]:
        filled = dict(object_value(value))
        for name, item in filled.items():
            if item is None and name not in stored:
                raise InvalidMember("the secret has to be given, or given again for another sink", pointer(name))
            filled[name] = stored[name] if item is None else item
        return tuple(_entries(filled, ("authorization",)))

    return check


def _entries(value: Json, allowed: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    headers, seen = object_value(value), set[str]()
    if len(headers) > MAX_HEADERS:
        raise InvalidMember(f"at most {MAX_HEADERS} headers")
    for name, item in headers.items():
        below, lower = pointer(name), name.lower().replace("_", "-")  # servers of CGI and WSGI fold the two
        if not _NAME.fullmatch(name):
            raise InvalidMember("not the name of a header (RFC 9110 token of 1 to 128 characters)", below)
        if lower not in allowed and (lower in _RESERVED or lower.startswith(_RESERVED_PREFIXES)):
            raise InvalidMember(f"{lower} is not for subscriptions to set{_instead(lower)}", below)
        if lower in seen:
            raise InvalidMember("appears twice, in another spelling", below)
        if not isinstance(item, str) or len(item) > MAX_VALUE or not _VALUE.fullmatch(item):
            raise InvalidMember(f"text of at most {MAX_VALUE} printable ASCII characters", below)
        seen.add(lower)
        yield name, item


def _instead(name: str) -> str:
    return "; use sinkcredential or x-secretheaders" if name in ("authorization", "cookie") else ""
