"""Keys that sign the tokens for other scopes: the ring, its rotation, the MAC.

HMAC-SHA-256 cut to 16 bytes. Each use of a secret has its own derived key, so that a token made for
one use never verifies for another: K(use) = HMAC-SHA-256(secret, "scopegate/" + use). The active key
signs; any key on the ring verifies until its date. Byte layouts are in docs/cookies.md.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from bisect import bisect_left
from collections.abc import Callable, Mapping
from hmac import compare_digest
from typing import Final, Literal, NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

from gateway.response.cookies import mac
from gateway.response.cookies.encryption import OVERHEAD, TokenDecrypter, TokenEncrypter

MAC_BYTES: Final = 16
MIN_SECRET_BYTES: Final = 32
MAX_KEY_ID: Final = 64
_KEY_ID: Final = re.compile(r"[!-~]+", re.ASCII)


Purpose = Literal["cookie", "rewrite", "message-id", "return", "return-id", "stored", "subscription"]
"""The purpose of a token, part of the key derivation. (Strings: an Enum member hashes ten times slower.)"""

COOKIE: Final = "cookie"
REPLY_TO: Final = "rewrite"
MESSAGE_ID: Final = "message-id"
RETURN: Final = "return"
RETURN_ID: Final = "return-id"
STORED: Final = "stored"
SUBSCRIPTION: Final = "subscription"
"""The secrets of a subscription, which are always sealed."""
_PURPOSES: Final[tuple[Purpose, ...]] = (COOKIE, REPLY_TO, MESSAGE_ID, RETURN, RETURN_ID, STORED, SUBSCRIPTION)


class BadToken(Exception):
    """A token was refused; its reason is only for log and counters, never for the peer."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason: Final = reason


class SigningSecret(NamedTuple):
    """A secret, and the last time (ms since the epoch) at which it verifies; None: no end."""

    secret: bytes
    until_ms: int | None = None

    def __repr__(self) -> str:
        return f"Key(secret=<{len(self.secret)} bytes>, until_ms={self.until_ms})"


class Signer:
    """One secret for one purpose: `begin` returns an HMAC that has processed the key already.

    The copy of such a state is the cheapest of six ways (docs/decisions/0021-prepared-hmac.md): it leaves only the
    message to hash, in 0.7 microseconds for 70 bytes.
    """

    __slots__ = ("begin", "states")

    def __init__(self, secret: bytes, purpose: Purpose) -> None:
        key = _derived(secret, b"scopegate/" + purpose.encode())
        self.begin: Final = HMAC(key, SHA256()).copy
        self.states: Final = mac.states(key)
        """The same for C code (`gateway.response.cookies.mac`); None: without libcrypto."""

    def mac(self, data: bytes) -> bytes:
        state = self.begin()
        state.update(data)
        return state.finalize()[:MAC_BYTES]


class KeyRing:
    """The keys by id. `active` signs; all verify until their date. A new policy makes a new ring.

    `sealing`: new tokens are sealed; both forms verify. `skew_ms`: how long a token is accepted after its expiry, for
    clocks that differ.
    """

    __slots__ = (
        "_dates", "_openers", "_sealers", "_secret", "_signers", "_token_bytes", "_until", "active", "dated", "ids",
        "sealing", "skew_ms",
    )  # fmt: skip

    def __init__(
        self,
        active: str,
        keys: Mapping[str, SigningSecret],
        *,
        seal: bool = False,
        skew_ms: int = 0,
        token_bytes: Callable[[int], bytes] = secrets.token_bytes,
    ) -> None:
        if active not in keys:
            raise ValueError(f"the active key {active!r} is not on the ring")
        for name, key in keys.items():
            _check_key(name, key)
        self.active: Final = active
        self.sealing: Final = seal
        self.skew_ms: Final = skew_ms
        self.ids: Final = tuple(keys)
        self._dates = sorted(key.until_ms for key in keys.values() if key.until_ms is not None)
        self.dated: Final = bool(self._dates)
        self._until = {name.encode(): key.until_ms for name, key in keys.items()}
        self._signers = {
            purpose: {name.encode(): Signer(key.secret, purpose) for name, key in keys.items()} for purpose in _PURPOSES
        }
        self._openers = {
            purpose: {name.encode(): TokenDecrypter(_seal_key(key.secret, purpose)) for name, key in keys.items()}
            for purpose in _PURPOSES
        }
        self._secret = keys[active].secret
        self._token_bytes = token_bytes
        self._sealers: dict[Purpose, TokenEncrypter] = {each: self._encrypter(each) for each in _PURPOSES if seal}

    def signer(self, purpose: Purpose) -> Signer:
        """The signer of the active key."""
        return self._signers[purpose][self.active.encode()]

    def begin(self, purpose: Purpose, key_id: bytes) -> Callable[[], HMAC]:
        """`Signer.begin` of a key of the ring, for checking many of its MACs."""
        return self._signers[purpose][key_id].begin

    def sealer(self, purpose: Purpose) -> TokenEncrypter:
        """The maker of sealed tokens; only if `sealing`, except for subscriptions, whose maker is made when needed."""
        if purpose == SUBSCRIPTION and SUBSCRIPTION not in self._sealers:
            self._sealers[SUBSCRIPTION] = self._encrypter(SUBSCRIPTION)
        return self._sealers[purpose]

    def _encrypter(self, purpose: Purpose) -> TokenEncrypter:
        return TokenEncrypter(self.active.encode(), _seal_key(self._secret, purpose), self._token_bytes)

    def epoch(self, now_ms: int) -> int:
        """The number of keys that have retired by now: within one epoch, a token that verified once verifies again."""
        return bisect_left(self._dates, now_ms) if self._dates else 0

    def verify(self, purpose: Purpose, key_id: bytes, data: bytes, mac: bytes, now_ms: int) -> None:
        """Raises `BadToken` unless `mac` is over `data` by a key of the ring that is still valid."""
        signer = self._signers[purpose].get(key_id)
        if signer is None:
            raise BadToken("unknown key")
        state = signer.begin()
        state.update(data)
        if not compare_digest(state.finalize()[:MAC_BYTES], mac):
            raise BadToken("wrong MAC")
        if self.dated:
            self.check_date(key_id, now_ms)

    def unseal(self, purpose: Purpose, data: bytes, now_ms: int, bound: bytes = b"") -> bytes:
        """The content of a sealed token (version 3), or `BadToken`; `bound` as when it was made."""
        start = 2 + data[1]
        if len(data) < OVERHEAD + data[1]:
            raise BadToken("wrong length")
        key_id = data[2:start]
        opener = self._openers[purpose].get(key_id)
        if opener is None:
            raise BadToken("unknown key")
        content = opener.open(data, start, bound)
        if content is None:
            raise BadToken("wrong MAC")
        self.check_date(key_id, now_ms)
        return content

    def check_date(self, key_id: bytes, now_ms: int) -> None:
        """Raises `BadToken` if a key of the ring has retired; needed only if `dated`."""
        until = self._until[key_id]
        if until is not None and now_ms > until:
            raise BadToken("retired key")


def new_secret(token_bytes: Callable[[int], bytes]) -> str:
    """A new secret as text; `token_bytes` is the source of randomness (`secrets.token_bytes`)."""
    return base64.urlsafe_b64encode(token_bytes(MIN_SECRET_BYTES)).rstrip(b"=").decode()


def _check_key(name: str, key: SigningSecret) -> None:
    if len(name) > MAX_KEY_ID or not _KEY_ID.fullmatch(name):
        raise ValueError(f"key id {name!r}: 1 to {MAX_KEY_ID} printable ASCII characters are allowed")
    if len(key.secret) < MIN_SECRET_BYTES:
        raise ValueError(f"key {name!r}: the secret has fewer than {MIN_SECRET_BYTES} bytes")


def _seal_key(secret: bytes, purpose: Purpose) -> bytes:
    return _derived(secret, b"scopegate/seal/" + purpose.encode())


def _derived(secret: bytes, use: bytes) -> bytes:
    return hmac.digest(secret, use, "sha256")
