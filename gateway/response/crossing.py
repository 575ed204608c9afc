"""A transform of messages that takes many of them in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

Messages = list[tuple[object, bytes, bool]]
"""Deliveries, their messages, and whether they came settled."""
Run = Callable[[Messages, int, int], list[bytes]]
"""Changes the messages of a list from one index up to another one.

The result is shorter where a message needs a look; that one is changed alone.
"""


class Crossing:
    """`one`: a function of one message, and `several`, which does the same with usual messages."""

    __slots__ = ("one", "several")

    def __init__(self, one: Callable[[bytes], bytes], several: Run) -> None:
        self.one: Final = one
        self.several: Final = several

    def __call__(self, data: bytes) -> bytes:
        """Change one message."""
        return self.one(data)
