"""SCRAM verifiers (RFC 5802, 3) per user: what is kept of a password, and how one is checked.

PLAIN is checked against the same verifiers, so one user file serves every mechanism. A user that is not
in the store gets a verifier too, made up but always the same one, so that a peer cannot tell "no such
user" from "wrong password" by the salt, the messages or the time taken.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final, NamedTuple

from scramp.utils import ScramException, saslprep

HASHES: Final = {"scram-sha-256": "sha256", "scram-sha-512": "sha512"}
ITERATIONS: Final = 4096


class Verifier(NamedTuple):
    """What the server keeps of a password for one hash (RFC 5802, 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


Verifiers = dict[str, Verifier]


def prepare(text: str) -> str | None:
    """SASLprep (RFC 4013): how names and passwords are compared; None when `text` is not allowed."""
    try:
        return str(saslprep(text)) or None
    except ScramException:
        return None


def derive(password: str, mechanism: str, salt: bytes, iterations: int) -> Verifier:
    """RFC 5802, 3: StoredKey and ServerKey of an already prepared password."""
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return Verifier(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", name))


class UserStore:
    """Verifiers by user; answers alike for users it knows and users it does not."""

    def __init__(self, users: Mapping[str, Verifiers]) -> None:
        self._users: Final = dict(users)
        known = [verifier for user in self._users.values() for verifier in user.values()]
        # Made-up verifiers look like the file's own. Their key comes from the file, so that every worker
        # and every restart invents the same salt for the same unknown user.
        self._key: Final = hashlib.sha256(b"".join(v.stored_key for v in known)).digest()
        self._iterations: Final = known[0].iterations if known else ITERATIONS
        self._salt_size: Final = len(known[0].salt) if known else 16

    def __len__(self) -> int:
        return len(self._users)

    def __contains__(self, user: object) -> bool:
        return user in self._users

    def verifier(self, user: str, mechanism: str) -> Verifier:
        """The verifier of a prepared user name for `scram-sha-…`; one that nothing fits when unknown."""
        found = self._users.get(user, {}).get(mechanism)
        return found if found is not None else self._invented(user, mechanism)

    def check_password(self, user: str, password: str) -> str | None:
        """The prepared user name when `password` is this user's, else None (RFC 4616, 2)."""
        name, secret = prepare(user), prepare(password)
        if name is None or secret is None:
            return None
        mechanism = next(iter(self._users.get(name, HASHES)))
        kept = self.verifier(name, mechanism)
        made = derive(secret, mechanism, kept.salt, kept.iterations)
        fits = hmac.compare_digest(made.stored_key, kept.stored_key)
        return name if fits and name in self._users else None

    def _invented(self, user: str, mechanism: str) -> Verifier:
        def bits(purpose: bytes) -> bytes:
            return hmac.digest(self._key, purpose + mechanism.encode() + b"\0" + user.encode(), "sha512")

        size = hashlib.new(HASHES[mechanism]).digest_size
        salt = bits(b"salt")[: self._salt_size]
        return Verifier(salt, self._iterations, bits(b"stored")[:size], bits(b"server")[:size])
