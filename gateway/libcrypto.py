"""SHA-256 of the libcrypto that hashlib has loaded, for C code: calls of hashlib cost more than small digests do.

Each module with such code has a `bind_sha256` (`gateway/amqp/message/_libcrypto.h`), and compares a digest of its own
before it uses the functions.
"""

from __future__ import annotations

import ctypes
from typing import Final

_NAMES: Final = ("SHA256_Init", "SHA256_Update", "SHA256_Final")


def sha256_functions() -> tuple[int, int, int] | None:
    """Their addresses; None: libcrypto is not a library of its own, or does not show them."""
    try:
        import _hashlib

        library = ctypes.CDLL(_hashlib.__file__)  # its symbols include those of the libraries that it needs
        init, update, final = (_address(library, name) for name in _NAMES)
    except (ImportError, AttributeError, OSError):
        return None
    return init, update, final


def _address(library: ctypes.CDLL, name: str) -> int:
    found = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    assert found is not None
    return found
