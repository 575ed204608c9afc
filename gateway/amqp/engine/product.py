"""The software of a peer, as its open names it (AMQP 2.7.1, connection properties); for the log only."""

from __future__ import annotations

from typing import Final

from gateway.amqp.proton import proton_data
from gateway.amqp.proton.handles import ProtonData
from gateway.errors import AmqpError

_MAX: Final = 128
"""Characters."""


def product_of(properties: ProtonData) -> str:
    """`product` and `version` of the properties, printable and cut to 128 characters; empty if they have none."""
    try:
        found = proton_data.read(properties)
    except AmqpError:  # deeper than we decode: nobody else reads them
        return ""
    if not isinstance(found, dict):
        return ""
    words = [word for key in ("product", "version") if isinstance(word := found.get(key), str)]
    return "".join(each if each.isprintable() else "?" for each in " ".join(words)[:_MAX])
