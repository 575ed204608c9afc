"""Why an event cannot be sent by a protocol."""

from __future__ import annotations


class NotEncodable(ValueError):
    """The protocol, or the mode, cannot carry this event: the sink refuses it. The text names no value of it."""
