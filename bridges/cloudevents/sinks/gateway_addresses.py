"""The addresses of the gateway itself and of its services, which no sink may have (docs/decisions/0025)."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from policies.model.kafka import EMBEDDED
from policies.model.policy import Policy
from policies.values.hosts import IpAddress
from policies.values.networks import unmapped
from policies.values.units import Bind, parse_bind

_ANY: Final = frozenset(("0.0.0.0", "::"))  # noqa: S104 - compared with, not bound to
_SIOCGIFADDR: Final = 0x8915
_IPV6: Final = Path("/proc/net/if_inet6")


def gateway_hosts(policy: Policy) -> frozenset[str]:
    """The hosts of the listeners, of Kafka and of Redis."""
    hosts = {bind.host for bind in _binds(policy)}
    for cluster in policy.kafka.values():
        if cluster.bootstrap != EMBEDDED:
            hosts |= {parse_bind(address).host for address in cluster.bootstrap.split(",")}
    if policy.gateway.state != "memory":
        hosts.add(urlsplit(policy.gateway.state).hostname or "localhost")
    return frozenset(hosts)


def _binds(policy: Policy) -> Iterator[Bind]:
    if policy.gateway.http is not None:
        yield policy.gateway.http
    for scope in policy.scopes.values():
        yield from (listener.bind for listener in scope.listen)
        yield from (listener.bind for listener in scope.api)


def gateway_addresses(hosts: frozenset[str]) -> frozenset[IpAddress]:
    """The addresses of these hosts; of every interface if one is a wildcard address. Blocks to resolve names."""
    found = {address for host in hosts - _ANY for address in _addresses(host)}
    if hosts & _ANY:
        found.update(_interfaces())
    return frozenset(map(unmapped, found))


def _addresses(host: str) -> Iterator[IpAddress]:
    with suppress(OSError, UnicodeError, ValueError):
        for *_, address in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM):
            yield ip_address(str(address[0]).partition("%")[0])


def _interfaces() -> Iterator[IpAddress]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # an interface without an IPv4 address
                answer = fcntl.ioctl(probe, _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
                yield IPv4Address(answer[20:24])
    with suppress(OSError):
        for line in _IPV6.read_text().splitlines():
            yield IPv6Address(bytes.fromhex(line.split()[0]))
