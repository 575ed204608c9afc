"""A node in another container: the attach is refused with its address there (2.8.18; row CORE-8)."""

from __future__ import annotations

from gateway.amqp.codec.codec import Uint
from gateway.errors import LINK_REDIRECT, AmqpError
from policies.rules import RedirectRoute

_TEXT = "this node is in another container: connect to network-host and port, and attach to address"


def redirect_error(*, hostname: str, host: str, port: int, address: str) -> AmqpError:
    """The redirect error: `host` and `port` to connect to, `hostname` for open, SASL and TLS there."""
    info = {"hostname": hostname, "network-host": host, "port": Uint(port), "address": address}
    return AmqpError(LINK_REDIRECT, _TEXT, info=info)


def redirected(route: RedirectRoute) -> AmqpError:
    """The redirect error of an address rule."""
    return redirect_error(hostname=route.hostname, host=route.host, port=route.port, address=route.address)
