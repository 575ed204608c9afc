"""Normalizes the hosts in URIs of sinks, so that rules can compare them.

Names become ASCII (IDNA), lower case, without a trailing dot. Addresses get the form that `ipaddress` prints. A name
that some resolver would read as a number is refused, unless it is an IPv4 address of four plain decimal parts.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from ipaddress import AddressValueError, IPv4Address, IPv6Address, ip_address
from typing import Final

IpAddress = IPv4Address | IPv6Address
_LABEL: Final = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_LONGEST: Final = 253
_KNOWN: Final = 1024
"""The number of hosts whose result is cached, because many subscriptions name the same ones."""
_DOTS: Final = frozenset("\u3002\uff0e\uff61")
"""The characters that IDNA treats as the dot between labels (RFC 3490, 3.1)."""
_DEVIATIONS: Final = frozenset("\u00df\u1e9e\u03c2\u200c\u200d")
"""Characters that IDNA 2003 and IDNA 2008 encode differently."""


class HostError(ValueError):
    """An invalid host; the text says why and does not contain the host."""


@lru_cache(_KNOWN)
def parse_host(text: str) -> str:
    """The normalized host, IPv6 without brackets; raises HostError."""
    if text.startswith("[") or text.endswith("]"):
        return _bracketed(text)
    name = _ascii(text).removesuffix(".")
    if len(name) > _LONGEST or not all(_LABEL.fullmatch(label) for label in name.split(".")):
        raise HostError("not a host name: labels of letters, digits and - (1 to 63 characters, 253 in all)")
    # Resolvers read such names as IPv4 addresses in octal, hexadecimal or with fewer parts (inet_aton).
    if _NUMBER.fullmatch(name.rpartition(".")[2]):
        return _four_parts(name)
    return name


@lru_cache(_KNOWN)
def address_of(host: str) -> IpAddress | None:
    """The IP address of a host that `parse_host` returned; None: the host is a name."""
    try:
        return IPv6Address(host) if ":" in host else IPv4Address(host)
    except AddressValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether a host, IPv6 without brackets, can only be this machine."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _bracketed(text: str) -> str:
    try:
        if text.startswith("[") and text.endswith("]") and "%" not in text:
            return str(IPv6Address(text[1:-1]))
    except AddressValueError:
        pass
    raise HostError("not an IPv6 address in brackets without a zone")


def _ascii(text: str) -> str:
    """The ASCII form of a name (RFC 5890)."""
    if any(_is_lookalike(each) for each in text if not each.isascii()):
        raise HostError("not one host name: it has full-width or other forms of ASCII characters; write it in ASCII")
    if not _DEVIATIONS.isdisjoint(text):
        raise HostError("not one host name: IDNA 2003 and 2008 differ in it; write it in ASCII (xn--)")
    try:
        return text.lower() if text.isascii() else text.encode("idna").decode().lower()
    except UnicodeError:
        raise HostError("not a host name that DNS allows (IDNA)") from None


def _is_lookalike(character: str) -> bool:
    """Whether IDNA treats it as an ASCII character, such as a full-width digit or an ideographic full stop."""
    return character in _DOTS or unicodedata.normalize("NFKC", character).isascii()


def _four_parts(name: str) -> str:
    try:
        return str(IPv4Address(name))  # strict: four decimal parts without leading zeros
    except AddressValueError:
        raise HostError("not an IPv4 address of four plain decimal parts") from None
