"""The errors of proton's transport in the words of AMQP and of this gateway (part 2, 2.8.15 to 2.8.17). Pure."""

from __future__ import annotations

import re
from typing import Final

from gateway.errors import INTERNAL_ERROR, INVALID_FIELD, NOT_ALLOWED, AmqpError

UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
_CONDITIONS: Final = {"amqp:not allowed": NOT_ALLOWED, "amqp:session:invalid-field": INVALID_FIELD}
"""What proton says, and AMQP does not know."""
_TEXTS: Final = tuple(
    (re.compile(pattern), condition, text)
    for pattern, condition, text in (
        (r"no such channel: (\d+)", None, r"no session has begun on channel \1"),
        (r"no such handle: (\d+)", UNATTACHED_HANDLE, r"no link is attached at handle \1"),
        (r"illegal delivery range: (\w+)-(\w+)", None, r"the deliveries \1 to \2 (in hex) of a disposition are none"),
        (r"local-idle-timeout expired", None, "nothing was received within the idle time-out of our open"),
        (r"link name already attached: (?s:.*)", None, "a link of this name and direction is attached on this session"),
    )
)


def reworded(error: AmqpError | None) -> AmqpError:
    """What the peer and the log are told."""
    if error is None:
        return AmqpError(INTERNAL_ERROR, "the connection ended with an error")
    condition = _CONDITIONS.get(error.condition, error.condition)
    for pattern, better, text in _TEXTS:
        if (found := pattern.fullmatch(error.description)) is not None:
            return AmqpError(better or condition, found.expand(text))
    return AmqpError(condition, error.description)
