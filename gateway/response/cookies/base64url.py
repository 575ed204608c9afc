"""Tokens as text: base64url without padding, in one spelling only."""

from __future__ import annotations

from binascii import a2b_base64, b2a_base64
from typing import Final

from gateway.response.cookies.keys import BadToken

_TO_URL: Final = bytes.maketrans(b"+/", b"-_")
_FROM_URL: Final = bytes.maketrans(b"-_", b"+/")


def to_url(token: bytes) -> bytes:
    """base64url without padding, for addresses and string ids."""
    return b2a_base64(token, newline=False).translate(_TO_URL, b"=")


def from_url(text: bytes) -> bytes:
    """Decode base64url; accepts only one spelling: no padding, no other alphabet, no spare bits."""
    try:
        token = a2b_base64(text.translate(_FROM_URL) + b"==")  # extra padding is harmless
    except ValueError:
        raise BadToken("not base64url") from None
    if to_url(token) != text:
        raise BadToken("not base64url")
    return token
