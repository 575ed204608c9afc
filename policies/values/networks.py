"""Decides whether an address is public: outside the IANA special-purpose registries, embedded or not.

Python's `is_global` is not used: in version 3.11 it is true of 64:ff9b::7f00:1, 2002:7f00:1:: and 224.0.0.1, too.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Final

from policies.values.hosts import IpAddress

IpNetwork = IPv4Network | IPv6Network

_SPECIAL_4: Final = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.31.196.0/24",
        "192.52.193.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "192.175.48.0/24",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    )
)
_GLOBAL_UNICAST: Final = IPv6Network("2000::/3")
"""All unicast addresses that IANA has allocated; addresses outside are special, local, multicast or unused."""
_SPECIAL_6: Final = tuple(
    IPv6Network(text) for text in ("2001::/23", "2001:db8::/32", "2620:4f:8000::/48", "3fff::/20")
)
_SIX_TO_FOUR: Final = IPv6Network("2002::/16")
_NAT64: Final = IPv6Network("64:ff9b::/96")


def is_public(address: IpAddress) -> bool:
    """Whether an address belongs to the public internet."""
    address = unmapped(address)
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _SPECIAL_4)
    inner = _inner(address)
    if inner is not None:
        return is_public(inner)
    return address in _GLOBAL_UNICAST and not any(address in network for network in _SPECIAL_6)


def unmapped(address: IpAddress) -> IpAddress:
    """The IPv4 address of an IPv4-mapped address, to which a socket really connects; any other address unchanged."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _inner(address: IPv6Address) -> IPv4Address | None:
    """The IPv4 address to which NAT64 or 6to4 forwards packets, if any; Teredo is special as a whole."""
    if address in _NAT64:
        return IPv4Address(int(address) & 0xFFFF_FFFF)
    return IPv4Address(int(address) >> 80 & 0xFFFF_FFFF) if address in _SIX_TO_FOUR else None
