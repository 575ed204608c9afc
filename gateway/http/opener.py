"""Requests of commands to a gateway: a proxy of the environment would ask its own machine about 127.0.0.1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.values.hosts import is_loopback

if TYPE_CHECKING:
    from urllib.request import BaseHandler, OpenerDirector


def direct(*handlers: BaseHandler | type[BaseHandler]) -> OpenerDirector:
    """An opener that asks the host of a URL itself, whatever proxy the environment names."""
    from urllib.request import ProxyHandler, build_opener

    return build_opener(ProxyHandler({}), *handlers)


def opener(host: str, *handlers: BaseHandler | type[BaseHandler]) -> OpenerDirector:
    """An opener for URLs of one host: direct on this machine, elsewhere through the environment's proxy, if any."""
    from urllib.request import build_opener

    return direct(*handlers) if is_loopback(host) else build_opener(*handlers)
