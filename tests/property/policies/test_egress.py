"""No spelling and no wrapping of a forbidden address passes, and what passes as a name is one to every resolver."""

from __future__ import annotations

import socket
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from policies.egress import SinkDestination, address_allowed, allows, sink_rule
from policies.internal_topics import TopicPatterns
from policies.model.scopes.sinks import SinkEntry
from policies.text.diagnostics import PolicyLine
from policies.values.hosts import HostError, address_of, parse_host
from policies.values.networks import is_public

_ENTRY: Final = SinkEntry.model_validate({"protocol": "http", "to": "https://**", "handshake": "off"})
ANY_NAME: Final = sink_rule(_ENTRY, frozenset(), TopicPatterns(_ENTRY.topics), PolicyLine("p", 1))
FORBIDDEN: Final = st.one_of(
    st.ip_addresses(v=4, network="127.0.0.0/8"),
    st.ip_addresses(v=4, network="10.0.0.0/8"),
    st.ip_addresses(v=4, network="169.254.0.0/16"),
    st.ip_addresses(v=4, network="172.16.0.0/12"),
    st.ip_addresses(v=4, network="192.168.0.0/16"),
    st.ip_addresses(v=4, network="224.0.0.0/4"),
)
NUMBERS: Final = st.sampled_from([str, hex, lambda n: f"0{n:o}", lambda n: f"0X{n:X}", lambda n: f"{n:04d}"])


@st.composite
def spellings(draw: st.DrawFn) -> str:
    """A forbidden IPv4 address as inet_aton reads it, or within an IPv6 address."""
    address = int(draw(FORBIDDEN))
    if draw(st.booleans()):
        wrap: Callable[[int], int] = draw(
            st.sampled_from([
                lambda v4: 0xFFFF << 32 | v4,
                lambda v4: v4,
                lambda v4: 0x64FF9B << 96 | v4,
                lambda v4: 0x64FF9B0001 << 80 | v4,
                lambda v4: 0x2002 << 112 | v4 << 80 | 1,
                lambda v4: 0x20010000 << 96 | v4 ^ 0xFFFF_FFFF,
            ])
        )
        return f"[{IPv6Address(wrap(address))}]"
    parts = draw(st.integers(1, 4))
    values = [address >> 8 * (3 - at) & 255 for at in range(parts - 1)]
    values.append(address & (1 << 8 * (5 - parts)) - 1)
    wide = draw(st.booleans())
    text = ".".join(draw(NUMBERS)(value) for value in values) + draw(st.sampled_from(["", "."]))
    return text.translate({ord(digit): 0xFF10 + int(digit) for digit in "0123456789"}) if wide else text


@given(spellings())
def test_no_spelling_of_a_forbidden_address_passes(host: str) -> None:
    try:
        found = parse_host(host)
    except HostError:
        return
    address = address_of(found)
    assert address is not None, "it would be resolved as a name"
    assert not address_allowed(ANY_NAME, address)
    assert allows([ANY_NAME], SinkDestination("http", "https", ((found, 443),), "/", "")) is None


@given(st.text(st.sampled_from("0123456789abcdefxX.-_\uff11\u3002\u0661:[]%"), max_size=20))
def test_a_name_is_a_name_to_every_resolver(host: str) -> None:
    try:
        found = parse_host(host)
    except HostError:
        return
    assert parse_host(f"[{found}]" if ":" in found else found) == found
    if address_of(found) is None:
        try:
            socket.inet_aton(found)
        except OSError:
            return
        raise AssertionError(f"{found} is an address to inet_aton")


@given(st.ip_addresses(v=4))
def test_wrapping_makes_no_address_public(address: IPv4Address) -> None:
    value = int(address)
    for wrapped in (0xFFFF << 32 | value, 0x64FF9B << 96 | value, 0x2002 << 112 | value << 80 | 7):
        assert is_public(IPv6Address(wrapped)) <= is_public(address)
    assert not is_public(IPv6Address(value))


@given(st.ip_addresses())
def test_public_is_at_most_what_is_globally_reachable(address: IPv4Address | IPv6Address) -> None:
    """Python's table misses networks, and has none that ours misses."""
    if not ip_address(str(address)).is_global:
        assert not is_public(address)
