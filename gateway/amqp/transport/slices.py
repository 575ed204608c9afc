"""How much of what a peer sent is worked on before others have their turn. Pure."""

from __future__ import annotations

from typing import Final

SLICE: Final = 1024
"""Bytes of a peer that are worked on at once, while nothing is known of how long its frames take."""
_LEAST: Final = 512
"""Bytes that are worked on at once at least."""
_LARGE: Final = 32 * 1024
"""Bytes that are worked on at once at most, where they are not of few large messages."""
_PIECE: Final = 0.001
"""Seconds that it should take."""
UNREAD: Final = 256 * 1024
"""Bytes that may wait for the next turn; with more, the socket is not read."""


def next_slice(size: int, seconds: float) -> int:
    """How many bytes to work on next, when `size` took so many seconds."""
    if seconds > _PIECE:
        return max(size // (4 if seconds > 2 * _PIECE else 2), _LEAST)
    grows = seconds < _PIECE / 2 if size < _LARGE else seconds < _PIECE / 8 and size < UNREAD
    return 2 * size if grows else size
