"""Translates errors of proton's transport into AMQP errors (part 2, 2.8.15 to 2.8.17). Pure.

Some of proton's descriptions quote bytes of the peer, which may be a password. Only descriptions that are known to
contain nothing but numbers are passed on; of the others only the condition.
"""

from __future__ import annotations

import re
from typing import Final

from gateway.errors import FRAMING_ERROR, INTERNAL_ERROR, INVALID_FIELD, NOT_ALLOWED, AmqpError

UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
SILENT: Final = "nothing was received within the idle time-out of our open"
"""What is said to a peer that sends nothing: its network may be gone, or it pauses."""
MALFORMED_FRAME: Final = (
    "a frame has less than 8 bytes, more than the max-frame-size of our open allows, or a wrong data offset"
)
"""proton does not say which of them."""
_CONDITIONS: Final = {"amqp:not allowed": NOT_ALLOWED, "amqp:session:invalid-field": INVALID_FIELD}
"""Conditions of proton that AMQP does not define."""
_TEXTS: Final = tuple(
    (re.compile(pattern), condition, text)
    for pattern, condition, text in (
        (r"no such channel: (\d+)", None, r"no session has begun on channel \1"),
        (r"no such handle: (\d+)", UNATTACHED_HANDLE, r"no link is attached at handle \1"),
        (r"illegal delivery range: (\w+)-(\w+)", None, r"a disposition has the empty range \1 to \2 (in hex)"),
        (r"local-idle-timeout expired", None, SILENT),
        (r"malformed frame", None, MALFORMED_FRAME),
        (r"link name already attached: (?s:.*)", None, "a link of this name and direction is attached on this session"),
    )
)
_PLAIN: Final = tuple(
    re.compile(pattern)
    for pattern in (
        r"connection aborted",
        r"incoming session window exceeded",
        r"invalid transition from settled to unsettled",
        r"invalid delivery-id for a continuation transfer",
        r"sequencing error, expected delivery-id \d+, got \d+",
        r"begin reply to unknown channel \d+\.?",
        r"remote channel \d+ is above negotiated channel_max \d+\.?",
        r"remote handle \d+ is above handle_max \d+",
    )
)
"""Descriptions that are passed on as they are."""
_NO_FRAME: Final = "the input is neither the AMQP header nor an AMQP frame that is allowed here"
_OTHER: Final = "the input violates the AMQP 1.0 protocol"


def reworded(error: AmqpError | None) -> AmqpError:
    """The error for the peer and the log, without bytes of the peer."""
    if error is None:
        return AmqpError(INTERNAL_ERROR, "the connection ended with an error")
    condition = _CONDITIONS.get(error.condition, error.condition)
    for pattern, better, text in _TEXTS:
        if (found := pattern.fullmatch(error.description)) is not None:
            return AmqpError(better or condition, found.expand(text))
    if any(pattern.fullmatch(error.description) for pattern in _PLAIN):
        return AmqpError(condition, error.description)
    return AmqpError(condition, _NO_FRAME if condition == FRAMING_ERROR else _OTHER)


_COMPLAINT: Final = re.compile(r"process error -?\d+")


def complaint(log_line: str) -> str:
    """A message of proton's log for our log, without quoted bytes of the peer."""
    found = _COMPLAINT.search(log_line)
    return found.group() if found else "proton gives a reason that may quote the peer"
