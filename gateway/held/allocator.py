"""Returns free memory to the system: glibc keeps freed memory that lies below memory in use."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

_ENOUGH: Final = 16 * 2**20
"""Bytes that must have been freed before it is worth trimming the heap."""


def _trim() -> Callable[[int], object] | None:
    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):  # another C library
        return None
    return trim


class Trimmer:
    """Trims the heap when much less is held than at the last trim."""

    def __init__(self, trim: Callable[[int], object] | None = None) -> None:
        self._trim: Final = trim if trim is not None else _trim()
        self._highest = self._held = 0

    def wants(self, held: int) -> bool:
        """Whether `held` is much less than the most since the last `trim`."""
        self._highest = max(self._highest, held)
        self._held = held
        return self._trim is not None and self._highest - held >= max(_ENOUGH, self._highest // 4)

    def trim(self) -> None:
        """Give memory back; blocks for some milliseconds, and may be called in a thread."""
        self._highest = self._held
        if self._trim is not None:
            self._trim(0)
