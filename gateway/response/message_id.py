"""Message-ids that contain the original id, so that any process can restore it where it is quoted (RA 2.5).

A rewritten message needs a new id, and any message that quotes it later, in either direction, means the original. The
new id therefore contains the original and its scope with a MAC: there is no table, and any process with the keys can
translate it, after any restart. Layout: docs/cookies.md.
"""

from __future__ import annotations

from collections.abc import Callable
from hmac import compare_digest
from itertools import count
from typing import Final, NamedTuple

from gateway.amqp.message._sections import encode_token_string, signed_token_string
from gateway.response.cookies import encryption
from gateway.response.cookies.base64url import from_url
from gateway.response.cookies.cookie import too_long
from gateway.response.cookies.keys import MAC_BYTES, MESSAGE_ID, BadToken, KeyRing
from gateway.response.cookies.token_layout import MAX_TOKEN

VERSION: Final = 1
MARK: Final = b"ID:sg-"  # JMS clients expect message-ids to begin with "ID:"
UNIQUE_BYTES: Final = 8
_STR8: Final = 0xA1
_STR32: Final = 0xB1


class IdOrigin(NamedTuple):
    """The original of a rewritten id, encoded (an encoded null: there was none), and its scope."""

    scope: str
    encoded: bytes


_SHORT: Final = 512
"""Bytes of an original that is certainly short enough for a token."""
_REMEMBERED: Final = 4096
"""Maximum number of ids in each of two generations, so that not all are forgotten at once."""


class ScopeIds:
    """Makes new ids for those of one scope, and translates them back.

    The latest ids are cached, because most are quoted soon and a lookup is cheaper than a MAC; all others, and those of
    other processes, are verified with the keys.

    A counter with a random start makes ids unique. An id does not expire: it gives no access, and a dialogue may quote
    it late.
    """

    __slots__ = (
        "_begin", "_earlier", "_mac", "_minted", "_named", "_prefix", "_ring", "_scope", "_seal", "_states", "_unique",
    )  # fmt: skip

    def __init__(self, ring: KeyRing, scope: str, token_bytes: Callable[[int], bytes]) -> None:
        self._ring, self._scope = ring, scope
        self._prefix = _prefix(ring, scope)
        signer = ring.signer(MESSAGE_ID)
        self._mac, self._begin, self._states = signer.mac, signer.begin, signer.states
        self._seal = ring.sealer(MESSAGE_ID).seal if ring.sealing else None
        self._named = _named(scope)
        self._minted: dict[bytes, bytes] = {}
        self._earlier: dict[bytes, bytes] = {}
        # Below 2**63, so that the counter cannot exceed eight bytes.
        self._unique = count(int.from_bytes(token_bytes(UNIQUE_BYTES), "big") >> 1)

    def mint(self, original: bytes) -> bytes:
        """An encoded string id for an encoded id."""
        if self._seal is None and self._states is not None and len(original) <= _SHORT:
            field = signed_token_string(MARK, self._prefix, next(self._unique), original, MAC_BYTES, self._states)
        else:
            field = self._general(original)
        minted = self._minted
        if len(minted) >= _REMEMBERED:
            self._earlier, self._minted = minted, (minted := {})
        minted[field] = original
        return field

    def _general(self, original: bytes) -> bytes:
        """An id that C code cannot make: a sealed or a long one, or without libcrypto."""
        if self._seal is None:
            payload = self._prefix + next(self._unique).to_bytes(UNIQUE_BYTES, "big") + original
            state = self._begin()
            state.update(payload)
            mac, size = state.finalize(), MAC_BYTES
        else:  # sealed tokens are unique: they are numbered
            payload, mac, size = self._seal(self._named + original), b"", 0
        if len(payload) + size > MAX_TOKEN:
            raise too_long()
        return encode_token_string(MARK, payload, mac, size)

    def original(self, field: bytes, now_ms: int) -> bytes | None:
        """The original of an encoded id; None unless this gateway made it for this scope.

        A forged id looks like one of a peer, and stays unchanged.
        """
        if MARK not in field:
            return None
        minted = self._minted.get(field) or self._earlier.get(field)
        if minted is not None:
            return minted
        try:
            token, mac = id_token(field), self._mac
            if token.startswith(self._prefix) and compare_digest(mac(token[:-MAC_BYTES]), token[-MAC_BYTES:]):
                return token[len(self._prefix) + UNIQUE_BYTES : -MAC_BYTES]
            origin = open_id(self._ring, token, now_ms)
        except BadToken:
            return None
        return origin.encoded if origin.scope == self._scope else None


def seal_id(ring: KeyRing, scope: str, original: bytes, unique: bytes) -> bytes:
    """The bytes of a single id, before their text encoding."""
    payload = _prefix(ring, scope) + unique + original
    return payload + ring.signer(MESSAGE_ID).mac(payload)


def open_id(ring: KeyRing, data: bytes, now_ms: int) -> IdOrigin:
    """Open an id; verifies MAC or seal first, and raises `BadToken`."""
    if not MAC_BYTES + UNIQUE_BYTES + 5 <= len(data) <= MAX_TOKEN:
        raise BadToken("wrong length")
    if data[0] == encryption.VERSION:
        content = ring.unseal(MESSAGE_ID, data, now_ms)
        stop = 1 + content[0]
        return IdOrigin(content[1:stop].decode(), content[stop:])
    if data[0] != VERSION:
        raise BadToken("unknown version")
    start = 2 + data[1]
    end = len(data) - MAC_BYTES
    ring.verify(MESSAGE_ID, data[2:start], data[:end], data[end:], now_ms)
    stop = start + 1 + data[start]
    return IdOrigin(data[start + 1 : stop].decode(), data[stop + UNIQUE_BYTES : end])


def id_token(field: bytes) -> bytes:
    """The decoded bytes of an id's text; raises `BadToken` if this gateway did not make it."""
    start = 2 if field[0] == _STR8 else 5
    whole = int.from_bytes(field[1:start]) == len(field) - start
    if field[0] not in (_STR8, _STR32) or not whole or not field.startswith(MARK, start):
        raise BadToken("not one of ours")
    return from_url(field[start + len(MARK) :])


def _prefix(ring: KeyRing, scope: str) -> bytes:
    key_id = ring.active.encode()
    return bytes([VERSION, len(key_id)]) + key_id + _named(scope)


def _named(scope: str) -> bytes:
    name = scope.encode()
    if len(name) > 255:
        raise ValueError("the name of a scope is longer than 255 bytes")
    return bytes([len(name)]) + name
