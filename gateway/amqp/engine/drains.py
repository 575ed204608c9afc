"""Drains whose answer waits for messages that are not written yet (AMQP 1.0 part 2, 2.6.7).

Part of the engine. Only links that owe an answer take time here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gateway.amqp.link.link import Link


class Drains:
    """The links that owe the answer to a drain."""

    def __init__(self) -> None:
        self.links: Final[dict[Link, None]] = {}

    def answer(self) -> bool:
        """After a write: answer those drains of which all messages are written, so that there is more to write."""
        answered = [link for link in self.links if link.credit_returned()]
        for link in answered:
            del self.links[link]
        return bool(answered)
