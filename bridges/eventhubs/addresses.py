"""Addresses of event hubs: `<hub>`, `<hub>/Partitions/<n>`, `<hub>/ConsumerGroups/<group>/Partitions/<n>`. Pure.

A client may give the path alone or as a URL (`amqps://host:port/<path>`); keywords are matched in any case.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from bridges.eventhubs.tokens import Resource, resource_of
from gateway.errors import NOT_FOUND, AmqpError, quoted

CBS: Final = "$cbs"
MANAGEMENT: Final = "$management"
_GROUPS: Final = "consumergroups"
_PARTITIONS: Final = "partitions"


class HubAddress(NamedTuple):
    """What an address names; `publisher` addresses are not supported."""

    path: Resource
    hub: str
    group: str | None = None
    partition: str | None = None


def request_node(address: str) -> str | None:
    """`$cbs` or `$management` if the address, with or without a host or a hub, is one of them.

    Raises:
        AmqpError: NOT_FOUND for a text that is no address.
    """
    path = _path(address)
    last = path[-1].lower() if path else ""
    return last if last in (CBS, MANAGEMENT) and len(path) <= 2 else None


def read_address(address: str) -> HubAddress:
    """What an address names; raises NOT_FOUND for any other form."""
    path = _path(address)
    keywords, values = list(path[1::2]), path[2::2]
    if len(path) == 1:
        return HubAddress(path, path[0])
    if keywords == [_PARTITIONS] and len(values) == 1:
        return HubAddress(path, path[0], None, values[0])
    if keywords == [_GROUPS, _PARTITIONS] and len(values) == 2:
        return HubAddress(path, path[0], values[0], values[1])
    raise _unknown(address)


def _path(address: str) -> Resource:
    try:
        return resource_of(address)
    except AmqpError:
        raise _unknown(address) from None


def _unknown(address: str) -> AmqpError:
    text = "use <hub>, <hub>/Partitions/<n> or <hub>/ConsumerGroups/<group>/Partitions/<n>"
    return AmqpError(NOT_FOUND, f"{quoted(address)} is no address of an event hub; {text}")
