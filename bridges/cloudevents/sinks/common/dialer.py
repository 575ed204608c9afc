"""Connects to a host: resolves its name once, checks the addresses against the policy, and dials a checked address.

Since a name may resolve differently each time, the checked address itself is dialled; the name is used in SNI, for
the certificate and in `Host` (decision 25). Every new connection is checked again.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from ipaddress import ip_address
from typing import Final

from aiohappyeyeballs import start_connection

from policies.egress import EgressDenial

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Resolves a name to addresses as text; raises OSError."""
AddressInfo = tuple[int, int, int, str, tuple[str, int] | tuple[str, int, int, int]]
"""An entry of `getaddrinfo`: family, kind, protocol, name, address."""
AddressCheck = Callable[[str], bool]
"""Whether the policy allows a sink at this address."""
_NEXT_ADDRESS: Final = 0.25
"""Seconds before the next address is tried as well."""
NOT_ALLOWED: Final = "the sink's host does not resolve to an address that the policy allows"
"""The same text for both causes, so that it does not reveal what a name resolves to."""


class EgressRefused(OSError):
    """The host has no address that the policy allows."""

    def __init__(self) -> None:
        super().__init__(NOT_ALLOWED)


async def system_resolve(host: str, port: int) -> list[str]:
    """Resolve with the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))


class Dialer:
    """Connects to the places that one rule of the policy allows."""

    def __init__(
        self,
        allowed: AddressCheck,
        resolve: Resolve = system_resolve,
        denied: Callable[[EgressDenial], None] = lambda reason: None,
    ) -> None:
        """`denied` is called for a host without an allowed address."""
        self._allowed: Final = allowed
        self._resolve: Final = resolve
        self._denied: Final = denied

    async def addresses(self, host: str, port: int) -> list[str]:
        """The allowed addresses of a host; raises EgressRefused if there is none."""
        try:
            found = [host] if _is_address(host) else await self._resolve(host, port)
        except OSError:
            found = []
        if allowed := [address for address in found if self._allowed(address)]:
            return allowed
        self._denied(EgressDenial.ADDRESS if found else EgressDenial.NAME)
        raise EgressRefused

    async def connect(self, host: str, port: int) -> socket.socket:
        """Connect a non-blocking socket; raises OSError.

        Of several addresses, a further one is tried if the earlier ones have not answered within 250 ms (RFC 8305).
        """
        addresses = await self.addresses(host, port)
        infos = [(family_of(each), socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (each, port)) for each in addresses]
        try:
            made = await start_connection(infos, happy_eyeballs_delay=_NEXT_ADDRESS, socket_factory=self.socket)
        except RuntimeError as error:  # uvloop raises it if the socket is closed meanwhile
            raise ConnectionAbortedError from error
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    def socket(self, info: AddressInfo) -> socket.socket:
        """Make a socket for an address; the check is repeated here, whoever chose the address."""
        family, kind, protocol, _, peer = info
        if not self._allowed(str(peer[0])):
            raise EgressRefused
        made = socket.socket(family, kind, protocol)
        made.setblocking(False)
        return made


def family_of(address: str) -> socket.AddressFamily:
    """IPv6 if the address contains a colon."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def uri_host(address: str) -> str:
    """The address as in a URI."""
    return f"[{address}]" if ":" in address else address


def _is_address(host: str) -> bool:
    with suppress(ValueError):
        ip_address(host)
        return True
    return False


def failure_reason(error: BaseException) -> str:
    """The reason for a failed connection, without any text from the peer."""
    if isinstance(error, EgressRefused):
        return NOT_ALLOWED
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed: {error.reason or 'connection closed'}"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    return "connection failed"
