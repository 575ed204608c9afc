"""Text that MQTT can carry (MQTT 5, 1.5.4). Pure."""

from __future__ import annotations

import re
from typing import Final

_UNASSIGNED: Final = "".join(chr(plane << 16 | low) for plane in range(17) for low in (0xFFFE, 0xFFFF))
_DISALLOWED: Final = re.compile(f"[\0-\x1f\x7f-\x9f\ufdd0-\ufdef{_UNASSIGNED}]").search


def is_mqtt_text(text: str) -> bool:
    """Whether no server has a reason to reject this text.

    A string must not contain NUL, and should not contain control characters and those that Unicode assigns to no
    character; servers may close the connection for any of these.
    """
    return _DISALLOWED(text) is None
