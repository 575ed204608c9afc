"""The size of slices of input, each processed in one turn. Pure."""

from __future__ import annotations

from typing import Final

SLICE: Final = 1024
"""The first slice in bytes, while the time for its frames is not known."""
_LEAST: Final = 512
"""The smallest slice in bytes."""
_LARGE: Final = 32 * 1024
"""The largest slice in bytes, except for few large messages."""
_PIECE: Final = 0.001
"""Target time of a slice in seconds."""
UNREAD: Final = 256 * 1024
"""Bytes that may wait for the next turn; above, the socket is not read."""


def next_slice(size: int, seconds: float) -> int:
    """The size of the next slice, if `size` bytes took `seconds`."""
    if seconds > _PIECE:
        return max(size // (4 if seconds > 2 * _PIECE else 2), _LEAST)
    grows = seconds < _PIECE / 2 if size < _LARGE else seconds < _PIECE / 8 and size < UNREAD
    return 2 * size if grows else size
