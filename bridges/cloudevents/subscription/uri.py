"""Parses sink URIs strictly: a URI that two parsers could read differently is refused (CE 3.2.1). Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import unquote

from bridges.cloudevents.model.members import InvalidMember
from bridges.cloudevents.model.values import Json, SinkProtocol, SinkUri
from policies.model.scopes.sinks import SCHEMES
from policies.values.hosts import HostError, parse_host

MAX_SINK: Final = 2048
_MAX_SERVERS: Final = 16
_ROUNDS: Final = 4
"""Maximum number of nested percent-encodings of a path."""
_URI: Final = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<authority>[^/?#]*)(?P<path>/[^?#]*)?(?:\?(?P<query>[^#]*))?"
)
_BAD: Final = re.compile(r'[\x00-\x20\x7f-\x9f\\"<>^`{|}\u2028\u2029]')
_ENCODED: Final = re.compile(r"(?:[!-$&-~]|%[0-9A-Fa-f]{2})*", re.ASCII)
_PORT: Final = re.compile(r"[0-9]{1,5}", re.ASCII)
_ELSEWHERE: Final = {"ws": "WebSockets are", "wss": "WebSockets are", "tcp": "this scheme is"}


def sink_uri(value: Json, protocol: SinkProtocol | None) -> SinkUri:
    """Parse the URI of a sink; raises `Wrong`. `protocol` None is reported elsewhere, and allows any scheme."""
    if not isinstance(value, str) or not 0 < len(value) <= MAX_SINK:
        raise InvalidMember(f"a URI of 1 to {MAX_SINK} characters")
    found = _URI.fullmatch(value)
    if found is None or _BAD.search(value):
        raise InvalidMember(_shape(value, protocol))
    scheme = found["scheme"].lower()
    default = _port_of(scheme, protocol)
    hosts = _hosts(found["authority"], default, scheme)
    path, query = found["path"] or "", found["query"]
    if not _ENCODED.fullmatch(path) or not _ENCODED.fullmatch(query or ""):
        raise InvalidMember("path and query must be percent-encoded ASCII")
    _check_path(path)
    _check_parts(scheme, hosts, path, query)
    return SinkUri(value, scheme, hosts, path, query or "")


def _shape(value: str, protocol: SinkProtocol | None) -> str:
    if "#" in value:
        return "a URI without a fragment"
    example = {"KAFKA": "kafka://host:9092", "AMQP": "amqps://host/address"}.get(protocol or "", "https://host/path")
    return f"an absolute URI like {example}, without spaces and control characters"


def _port_of(scheme: str, protocol: SinkProtocol | None) -> int:
    if protocol is None:
        return 1
    schemes = SCHEMES[protocol.value.lower()]
    if scheme not in schemes:
        elsewhere = f"{_ELSEWHERE[scheme]} not offered here; " if scheme in _ELSEWHERE else ""
        raise InvalidMember(f"{elsewhere}the scheme for {protocol} is {' or '.join(schemes)}")
    return schemes[scheme]


def _hosts(authority: str, default: int, scheme: str) -> tuple[tuple[str, int], ...]:
    if "@" in authority:
        raise InvalidMember("no user or password in the URI; give them as sinkcredential")
    if not authority:
        if scheme in ("amqp", "kafka"):
            return ()
        raise InvalidMember("the URI names no host")
    servers = authority.split(",") if scheme == "kafka" else [authority]
    if len(servers) > _MAX_SERVERS:
        raise InvalidMember(f"at most {_MAX_SERVERS} servers")
    return tuple(_host_and_port(server, default) for server in servers)


def _host_and_port(text: str, default: int) -> tuple[str, int]:
    host, port = text, str(default)
    bracket = text.rfind("]")
    if (colon := text.find(":", bracket + 1)) >= 0:
        host, port = text[:colon], text[colon + 1 :]
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        raise InvalidMember("a port is a number from 1 to 65535")
    if "%" in host:
        raise InvalidMember("no percent-encoding and no zone in the host")
    try:
        return parse_host(host), int(port)
    except HostError as error:
        raise InvalidMember(f"the host is {error}") from None


def _check_path(path: str) -> None:
    """Refuse dot segments in any spelling (`..`, `%2e%2e`, `..;a`, `%252e`): they address another resource."""
    decoded = path
    for _ in range(_ROUNDS):
        if any(segment.partition(";")[0] in (".", "..") for segment in re.split(r"[/\\]", decoded)):
            raise InvalidMember("the path must have no segments . and ..")
        before, decoded = decoded, unquote(decoded, errors="replace")
        if decoded == before:
            break
    if any(ord(character) < 32 or ord(character) == 127 for character in decoded) or "%25" in decoded:
        raise InvalidMember("the path must have no control characters")


def _check_parts(scheme: str, hosts: tuple[tuple[str, int], ...], path: str, query: str | None) -> None:
    if scheme in SCHEMES["http"]:
        return
    if query is not None:
        raise InvalidMember("a query is for HTTP only")
    if scheme not in SCHEMES["amqp"] and path not in ("", "/"):
        raise InvalidMember("no path here; the target is one of protocolsettings")
    if not hosts and scheme == "amqp" and path in ("", "/"):
        raise InvalidMember("amqp:///address needs an address")
