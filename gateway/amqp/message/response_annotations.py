"""Whether a message carries the annotations of response routing, which not every target takes (RA 2.2, 2.3).

Their names and types: `gateway/response/annotations.py`.
"""

from __future__ import annotations

from typing import Final

from gateway.amqp.message.sections import map_entry, walk
from gateway.errors import AmqpError

SUPPORTED: Final = "response-address-supported"
"""What a target announces whose responses follow the annotations of their requests (RA 2.2)."""
CAPABILITY: Final = "RESPONSE_ANNOTATIONS_V1_0"
"""What a container offers that supports them at all, and desires that may send them (RA 2.1)."""
_REQUEST: Final = ("response-address-cookie", "response-link-target-address")


def annotated(data: bytes) -> bool:
    """Whether the message has annotations that only a target that announced support may get (RA-2.3-3).

    False for malformed bytes: their reader reports the error.
    """
    if b"response-" not in data:
        return False
    try:
        layout = walk(data)
        section = data[layout.da : layout.ma]
        return bool(section) and any(
            map_entry(section, name) is not None for name in _REQUEST
        )
    except AmqpError:
        return False

