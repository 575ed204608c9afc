"""Messages of one shape, read together, and Arrow buffers of what was found (`_decode.c`)."""

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

EXPECT: int
OPEN: int
CLOSE: int
MARK: int
VALUE: int
BINARY: int
SIGNED: int
UNSIGNED: int
BOOLEAN: int
DOUBLE: int
NOTHING: int

Found: TypeAlias = tuple[bytes | None, bytes | None, bytes | None]
"""Positions or numbers (64 bits), ends of texts and binaries, which values are null (one byte each)."""
Pieces: TypeAlias = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_] | None] | None

def decode(
    data: bytes,
    starts: NDArray[np.int64],
    ends: NDArray[np.int64],
    rows: NDArray[np.int64],
    program: tuple[tuple[object, ...], ...],
    /,
) -> tuple[bytes, list[Found]]: ...
def interleave(data: bytes, count: int, columns: tuple[Pieces, ...], /) -> tuple[bytes | None, bytes, bytes, bool]: ...
