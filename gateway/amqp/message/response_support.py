"""Support of response routing: its capabilities, and whether a message needs it of its target (RA 2.1 to 2.3).

`gateway/response/annotations.py` has the names and types of the annotations.
"""

from __future__ import annotations

from typing import Final

from gateway.amqp.message.sections import map_entry, walk
from gateway.errors import AmqpError

SUPPORTED: Final = "response-address-supported"
"""The capability of targets whose responses follow the annotations of their requests (RA 2.2)."""
CAPABILITY: Final = "RESPONSE_ANNOTATIONS_V1_0"
"""The capability that containers offer that support the annotations, and desire that may send them (RA 2.1)."""
_REQUEST: Final = ("response-address-cookie", "response-link-target-address")


def annotated(data: bytes) -> bool:
    """Whether the message has annotations that it may have only at a target that announced support (RA-2.3-3).

    False for malformed bytes; whoever decodes them reports the error.
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

