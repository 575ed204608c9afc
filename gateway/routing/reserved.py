"""`$me` as a reply-to: the other half of a link pair (RA 2.3). `policies.reserved` has the other reserved addresses."""

from __future__ import annotations

from typing import Final

from gateway.amqp.codec.codec import encode
from gateway.amqp.message.properties import REPLY_TO, field_value
from gateway.amqp.message.sections import property_field, replace_properties, walk
from gateway.errors import NOT_FOUND, AmqpError
from gateway.links.link_context import Pair

ME: Final = "$me"
"""The other half of the link pair that a request came on."""
_TEXT: Final = ME.encode()


def asks_me(data: bytes) -> bool:
    """Whether the reply-to of a request is `$me`."""
    if data.find(_TEXT, 0, 8192) < 0:
        return False
    return bool(field_value(property_field(data, walk(data), REPLY_TO)) == ME)


def with_own_address(data: bytes, pair: Pair | None) -> bytes:
    """The request with the real address instead of `$me`."""
    return replace_properties(data, walk(data), {REPLY_TO: own_address(pair)})


def own_address(pair: Pair | None) -> bytes:
    """The encoded address for `$me`; raises AmqpError if the pair has no half for responses."""
    if pair is None or pair.address is None:
        raise AmqpError(NOT_FOUND, "$me: there is no paired link for the response")
    return encode(pair.address)
