"""SCRAM verifiers (RFC 5802, 3) per user: what is stored of a password, and how one is checked.

PLAIN is checked against the same verifiers, so one users file serves every mechanism. A user that is not in the
store gets an invented verifier, always the same one, so that a peer cannot tell "no such user" from "wrong password"
by the salt, the iteration count, the messages or the time taken.
"""

from __future__ import annotations

import hashlib
import hmac
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

HASHES: Final = {"scram-sha-256": "sha256", "scram-sha-512": "sha512"}
ITERATIONS: Final = 4096
RESERVED: Final = {
    "anonymous": "is the user of every connection without a login",
    "*": "means everybody in access rules",
}
"""Forbidden user names, and why."""
MAX_CHARACTERS: Final = 255
"""Maximum characters of a name or a password, before and after SASLprep, which takes time per character."""


class Verifier(NamedTuple):
    """What the server stores of a password for one hash (RFC 5802, 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


Verifiers = dict[str, Verifier]


def prepare(text: str) -> str | None:
    """SASLprep (RFC 4013): how names and passwords are compared; None when `text` is not allowed or too long."""
    if len(text) > MAX_CHARACTERS:
        return None
    if text.isascii():
        return text if text and text.isprintable() else None
    # One character can become many: U+FDFA becomes 18.
    if len(unicodedata.ucd_3_2_0.normalize("NFKC", text)) > MAX_CHARACTERS:
        return None
    from scramp.utils import ScramException, saslprep

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


class _Shape(NamedTuple):
    """The properties of a user's verifiers that a peer can see."""

    mechanism: str
    iterations: int
    salt_size: int


_USUAL: Final = _Shape("scram-sha-256", ITERATIONS, 16)


class UserStore:
    """Verifiers by user; known and unknown users get indistinguishable answers."""

    def __init__(self, users: Mapping[str, Verifiers], secret: bytes | None = None) -> None:
        """`secret`: the key of invented verifiers, the same for the life of the users file.

        Without one it comes from the verifiers themselves: invented salts then change whenever the file does.
        """
        self._users: Final = {name: verifiers for name, verifiers in users.items() if verifiers}
        known = [verifier for user in self._users.values() for verifier in user.values()]
        self._key: Final = secret or hashlib.sha256(b"".join(v.stored_key for v in known)).digest()
        self.changes: Final = secret is None and bool(known)
        """Whether the answers to unknown users depend on the rest of the file."""
        shapes = Counter(_shape(verifiers) for verifiers in self._users.values())
        self._shapes: Final = sorted(shapes.items()) or [(_USUAL, 1)]

    def __len__(self) -> int:
        return len(self._users)

    def __contains__(self, user: object) -> bool:
        return user in self._users

    def admits(self, user: str, mechanism: str) -> bool:
        """Whether a user, under its prepared name, can log in by a SASL mechanism; PLAIN is checked by any verifier."""
        verifiers = self._users.get(user, {})
        return bool(verifiers) if mechanism == "PLAIN" else mechanism.lower() in verifiers

    def verifier(self, user: str, mechanism: str) -> Verifier:
        """The verifier of a prepared user name for `scram-sha-…`; for an unknown user one that no password fits."""
        verifiers = self._users.get(user)
        if verifiers is None:
            return self._invented(user, mechanism)
        return verifiers.get(mechanism) or self._unusable(user, mechanism, next(iter(verifiers.values())))

    def password_check(self, name: str, password: str) -> Callable[[], bool]:
        """A function that checks whether `password` is that of `name`, both prepared.

        It hashes (RFC 5802, 3), which takes 1 to 30 ms: do not call it on the event loop.
        """
        mechanism = next(iter(self._users.get(name) or (self._drawn(name).mechanism,)))
        return partial(_fits, password, mechanism, self.verifier(name, mechanism), name in self._users)

    def check_password(self, user: str, password: str) -> str | None:
        """The prepared user name when `password` is this user's, else None (RFC 4616, 2); hashes at once."""
        name, secret = prepare(user), prepare(password)
        if name is None or secret is None:
            return None
        return name if self.password_check(name, secret)() else None

    def _bits(self, purpose: str, user: str) -> bytes:
        return hmac.digest(self._key, f"{purpose}\0{user}".encode(), "sha512")

    def _drawn(self, user: str) -> _Shape:
        """A shape of one of the file's users, chosen by the name, with the same frequencies as in the file."""
        left = int.from_bytes(self._bits("shape", user)[:8], "big") * sum(count for _, count in self._shapes) >> 64
        for shape, count in self._shapes:
            if left < count:
                return shape
            left -= count
        raise AssertionError("the draw is below the sum")

    def _invented(self, user: str, mechanism: str) -> Verifier:
        # One salt for every mechanism, as `scopegate users add` makes for real users.
        shape = self._drawn(user)
        blocks = (self._bits(f"salt-{block}", user) for block in range(shape.salt_size // 64 + 1))
        salt = b"".join(blocks)[: shape.salt_size]
        return self._unusable(user, mechanism, Verifier(salt, shape.iterations, b"", b""))

    def _unusable(self, user: str, mechanism: str, like: Verifier) -> Verifier:
        """A verifier with the salt and the iterations of another, which no password fits."""
        size = hashlib.new(HASHES[mechanism]).digest_size
        stored, server = (self._bits(f"{key}-{mechanism}", user)[:size] for key in ("stored", "server"))
        return Verifier(like.salt, like.iterations, stored, server)


def _shape(verifiers: Verifiers) -> _Shape:
    mechanism, verifier = next(iter(verifiers.items()))
    return _Shape(mechanism, verifier.iterations, len(verifier.salt))


def _fits(password: str, mechanism: str, kept: Verifier, known: bool) -> bool:
    made = derive(password, mechanism, kept.salt, kept.iterations)
    return hmac.compare_digest(made.stored_key, kept.stored_key) and known
