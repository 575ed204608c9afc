"""The layout of a cookie: sizes and flags (docs/cookies.md; KM-23, A31)."""

from __future__ import annotations

from typing import Final

from gateway.response.cookies.keys import MAC_BYTES

VERSION: Final = 1
MAX_TOKEN: Final = 4096
ADDRESS: Final = 0x01
INNER_COOKIE: Final = 0x02
INNER_TARGET: Final = 0x04
USES: Final = 0x10
KNOWN_FLAGS: Final = ADDRESS | INNER_COOKIE | INNER_TARGET | USES
REFERENCE: Final = 0x20
"""The only flag of a reference."""
NONCE_BYTES: Final = 12
NAME_BYTES: Final = 16
REFERENCE_BYTES: Final = NAME_BYTES + 16
EXPIRY_BYTES: Final = 6
PLAIN_BYTES: Final = EXPIRY_BYTES + 2
"""Expiry and the length of an address, which are adjacent and read as one number."""
# version, flags, empty key id, two empty fields, expiry, MAC
MIN_TOKEN: Final = 3 + 4 + EXPIRY_BYTES + MAC_BYTES
MIN_LIMIT: Final = 384
"""The minimum of `keys.max_cookie`: a reference with names of 64 bytes and a seal must fit."""
MAX_USES: Final = 65_535
