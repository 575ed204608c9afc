"""Encrypted tokens (version 3): AES-256-GCM, so that peers cannot read the contents of a cookie (KM-23).

K = HMAC-SHA-256(secret, "scopegate/seal/" + purpose). Each process (each key ring) encrypts its tokens with a key of
its own, HMAC-SHA-256(K, salt), with 16 random bytes of salt in the token. So the nonce can be a counter: it cannot
repeat under one key, however many gateways share the secret and however many tokens they create. Layout:
docs/cookies.md.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Final

from cryptography.exceptions import InvalidTag

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VERSION: Final = 3
SALT_BYTES: Final = 16
NUMBER_BYTES: Final = 8
TAG_BYTES: Final = 16
OVERHEAD: Final = 2 + SALT_BYTES + NUMBER_BYTES + TAG_BYTES
"""Bytes of a token beside the content and the key id."""
_PAD: Final = bytes(4)  # extends the number to a nonce of 96 bits
_REMEMBERED: Final = 256
"""Salts whose key is cached: one for each process and reload whose tokens are still in use."""


class TokenEncrypter:
    """Creates the encrypted tokens of one process for one purpose; `derived` is K."""

    __slots__ = ("_cipher", "_head", "_numbers")

    def __init__(self, key_id: bytes, derived: bytes, token_bytes: Callable[[int], bytes]) -> None:
        salt = token_bytes(SALT_BYTES)
        self._head = bytes([VERSION, len(key_id)]) + key_id + salt
        self._cipher = _cipher(derived, salt)
        # Starts below 2**63, so that the counter cannot overflow its eight bytes.
        self._numbers = count(int.from_bytes(token_bytes(NUMBER_BYTES), "big") >> 1)

    def seal(self, content: bytes, bound: bytes = b"") -> bytes:
        """Encrypt `content`; the token decrypts only with the same `bound` (associated data, not part of the token)."""
        number = next(self._numbers).to_bytes(NUMBER_BYTES, "big")
        head = self._head + number
        return head + self._cipher.encrypt(_PAD + number, content, head + bound)


class TokenDecrypter:
    """Decrypts the tokens of all processes that share one secret, for one purpose."""

    __slots__ = ("_ciphers", "_derived")

    def __init__(self, derived: bytes) -> None:
        self._derived = derived
        self._ciphers: dict[bytes, AESGCM] = {}

    def open(self, data: bytes, start: int, bound: bytes = b"") -> bytes | None:
        """The content of a token whose salt is at `start`; None unless the token and `bound` are authentic."""
        at = start + SALT_BYTES
        end = at + NUMBER_BYTES
        salt = data[start:at]
        known = self._ciphers.get(salt)
        cipher = known or _cipher(self._derived, salt)
        try:
            content = cipher.decrypt(_PAD + data[at:end], data[end:], data[:end] + bound)
        except InvalidTag:
            return None
        if known is None:  # cached only after a valid token, so that forged salts cannot fill the cache
            if len(self._ciphers) >= _REMEMBERED:
                self._ciphers.clear()
            self._ciphers[salt] = cipher
        return content


def _cipher(derived: bytes, salt: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # imported here: it takes a fiftieth of a start

    return AESGCM(hmac.digest(derived, salt, "sha256"))
