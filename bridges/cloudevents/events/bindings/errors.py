"""The error for an event that a protocol cannot carry."""

from __future__ import annotations


class NotEncodable(ValueError):
    """The protocol, or the mode, cannot carry this event, which counts as refused. The text contains no value of it."""
