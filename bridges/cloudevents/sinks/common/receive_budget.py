"""Limits what a server may send to a client that only publishes: answers, and little else. Pure."""

from __future__ import annotations

from typing import Final

_ANSWER: Final = 1024
"""Bytes that the answer to one publication may have."""


class ReceiveBudget:
    """The bytes that a server may still send on one connection.

    Without it, a server could fill the memory with one endless packet, or keep the event loop busy with small ones.
    """

    def __init__(self, greeting: int) -> None:
        """`greeting`: bytes that may come unasked, on the whole connection."""
        self._left = greeting

    def on_published(self, count: int = 1) -> None:
        """So many more answers may come."""
        self._left += count * _ANSWER

    def spend(self, size: int) -> bool:
        """Count received bytes; returns whether the server may have sent them."""
        self._left -= size
        return self._left >= 0
