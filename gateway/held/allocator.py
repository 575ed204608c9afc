"""Returns free memory to the system: glibc keeps freed memory that lies below memory in use."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Final

_ENOUGH: Final = 16 * 2**20
"""Bytes that must have been freed before it is worth trimming the heap."""
_MUCH: Final = 3 * 2**20
"""Free bytes in the heap that are given back now and then: Kafka clients that come and go leave holes in it."""


class _Mallinfo2(ctypes.Structure):
    """`struct mallinfo2` (glibc 2.33)."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost",
        )
    )  # fmt: skip


def free_bytes() -> int:
    """Bytes that the C library keeps free in all its arenas; 0 if it does not tell."""
    try:
        read = ctypes.CDLL(None).mallinfo2
    except (AttributeError, OSError):  # another C library, or an older one
        return 0
    read.restype = _Mallinfo2
    return int(read().fordblks)


def _trim() -> Callable[[int], object] | None:
    try:
        trim: Callable[[int], object] = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):  # another C library
        return None
    return trim


class Trimmer:
    """Trims the heap when much less is held than at the last trim, and when much of it is free."""

    def __init__(
        self, trim: Callable[[int], object] | None = None, free: Callable[[], int] = free_bytes
    ) -> None:
        self._free: Final = free
        self._trim: Final = trim if trim is not None else _trim()
        self._highest = self._held = 0

    def wants(self, held: int) -> bool:
        """Whether `held` is much less than the most since the last `trim`."""
        self._highest = max(self._highest, held)
        self._held = held
        return self._trim is not None and self._highest - held >= max(_ENOUGH, self._highest // 4)

    def tidy(self) -> None:
        """Trim if much is free, whatever was held; to be called in a thread."""
        if self._free() >= _MUCH:
            self.trim()

    def trim(self) -> None:
        """Give memory back; blocks for some milliseconds, and may be called in a thread."""
        self._highest = self._held
        if self._trim is not None:
            self._trim(0)
