"""Gives free memory back to the system: glibc keeps what was freed below something that is still in use."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

_ENOUGH: Final = 16 * 2**20
"""Bytes that have to be given back before it is worth a look at all of the heap."""


def _trim() -> Callable[[int], object] | None:
    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):  # another C library
        return None
    return trim


class Trimmer:
    """Asked now and then with what is held: trims when much less is held than there was."""

    def __init__(self, trim: Callable[[int], object] | None = None) -> None:
        self._trim: Final = trim if trim is not None else _trim()
        self._highest = self._held = 0

    def wants(self, held: int) -> bool:
        """Whether much less is held than there was since the last `trim`."""
        self._highest = max(self._highest, held)
        self._held = held
        return self._trim is not None and self._highest - held >= max(_ENOUGH, self._highest // 4)

    def trim(self) -> None:
        """Give memory back; blocks for some milliseconds, and may be called in a thread."""
        self._highest = self._held
        if self._trim is not None:
            self._trim(0)
