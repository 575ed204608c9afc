"""SHA-256 for records, and for the C code that restores them (`_digest.h`): that of the libcrypto of hashlib.

A call of hashlib costs more than the digest of a small record. Where libcrypto is not a library of its own, or does not
show these functions, hashlib is called.
"""

from __future__ import annotations

import hashlib
from typing import Final

from bridges.kafka.consume._fetch import bind_sha256
from bridges.kafka.consume._fetch import sha256 as native_sha256
from gateway.libcrypto import sha256_functions

_SAMPLE: Final = bytes(range(200))


def bind() -> tuple[int, int, int] | None:
    """Bind the functions, and their addresses; None: they were not found, or do not make the digests of hashlib."""
    if (functions := sha256_functions()) is None:
        return None
    bind_sha256(*functions)
    if native_sha256(_SAMPLE) == hashlib.sha256(_SAMPLE).digest():
        return functions
    bind_sha256(0, 0, 0)
    return None


ADDRESSES: Final = bind()
"""Those of the functions, for other C code; None: it cannot use them."""


def sha256(data: bytes) -> bytes:
    """The digest of `data`, 32 bytes."""
    return native_sha256(data) or hashlib.sha256(data).digest()
