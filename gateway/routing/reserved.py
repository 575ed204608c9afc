"""Addresses that every scope keeps for the gateway, and `$me` as a reply-to (ledger CORE-10, RA 2.3)."""

from __future__ import annotations

from typing import Final

from gateway.amqp.codec.codec import encode
from gateway.amqp.message.properties import REPLY_TO, field_value
from gateway.amqp.message.sections import property_field, replace_properties, walk
from gateway.errors import NOT_FOUND, AmqpError
from gateway.routing.link_context import Pair

ME: Final = "$me"
"""The other half of the link pair that a request came on."""
TEMPORARY: Final = "$temp/"
"""What the addresses of temporary nodes begin with."""
_REPLIES: Final = "$replies"
_TEXT: Final = ME.encode()


def replies_address(scope: str) -> str:
    """The address in `scope` under which the gateway takes responses."""
    return f"{_REPLIES}.{scope}"


def asks_me(data: bytes) -> bool:
    """Whether the response goes to the other link of the pair that the request came on."""
    if data.find(_TEXT, 0, 8192) < 0:
        return False
    return bool(field_value(property_field(data, walk(data), REPLY_TO)) == ME)


def with_own_address(data: bytes, pair: Pair | None) -> bytes:
    """The request with the address that `$me` stands for."""
    return replace_properties(data, walk(data), {REPLY_TO: own_address(pair)})


def own_address(pair: Pair | None) -> bytes:
    """The encoded address that `$me` stands for; raises AmqpError where there is nowhere to answer to."""
    if pair is None or pair.address is None:
        raise AmqpError(NOT_FOUND, "$me: there is no paired link for the response")
    return encode(pair.address)
