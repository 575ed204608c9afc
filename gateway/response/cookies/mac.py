"""HMAC-SHA-256 in C, for tokens that are made for each message (`_signed_token.h`); without libcrypto there is none."""

from __future__ import annotations

import hmac
from typing import Final

from gateway.amqp.message._sections import bind_sha256, encode_token_string, mac_states, signed_token_string
from gateway.libcrypto import sha256_functions

_KEY: Final = bytes(range(32))
_REST: Final = bytes(range(100, 200))


def bind() -> bool:
    """Bind libcrypto's functions; False: they were not found, or do not make the MAC of a sample."""
    if (functions := sha256_functions()) is None:
        return False
    bind_sha256(*functions)
    found, token = mac_states(_KEY), b"p" + (7).to_bytes(8, "big") + _REST
    assert found is not None
    expected = encode_token_string(b"m", token, hmac.digest(_KEY, token, "sha256"), 16)
    if signed_token_string(b"m", b"p", 7, _REST, 16, found) == expected:
        return True
    bind_sha256(0, 0, 0)
    return False


bind()


def states(key: bytes) -> bytes | None:
    """The states of a MAC that have processed a key of at most 64 bytes."""
    return mac_states(key)
