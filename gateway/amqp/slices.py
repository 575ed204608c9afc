"""How much of what a peer sent is worked on before others have their turn. Pure."""

from __future__ import annotations

from typing import Final

SLICE: Final = 4096
"""Bytes of a peer that are worked on at once, while nothing is known of how long its frames take."""
_LEAST: Final = 512
"""Bytes that are worked on at once at least."""
TURN: Final = 0.002
"""Seconds after which output, timers and others have their turn."""
UNREAD: Final = 256 * 1024
"""Bytes that may wait for the next turn; with more, the socket is not read."""


def next_slice(size: int, seconds: float) -> int:
    """How many bytes to work on next, when `size` took so many seconds: half a turn is the aim."""
    if seconds > TURN:
        return max(size // 4, _LEAST)
    return 2 * size if seconds < TURN / 4 and size < UNREAD else size
