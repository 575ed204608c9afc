"""The server side of each SASL mechanism: one object per attempt.

`step` takes a message of the client and returns a challenge, a `Check` to run elsewhere or, at the end, `Success`; it
raises `LoginDenied` for everything else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from gateway.amqp.sasl.verifiers import RESERVED, UserStore, prepare

ANONYMOUS: Final = "ANONYMOUS"
PLAIN: Final = "PLAIN"
EXTERNAL: Final = "EXTERNAL"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
STRONGEST_FIRST: Final = (EXTERNAL, SCRAM_SHA_512, SCRAM_SHA_256, PLAIN, ANONYMOUS)
ANONYMOUS_USER: Final = "anonymous"


class LoginDenied(Exception):
    """Authentication failed; `reason` is one of a few words for the log, never sent."""

    def __init__(self, reason: str, claimed: str = "") -> None:
        super().__init__(reason)
        self.reason: Final = reason
        self.claimed: Final = claimed


class Success(NamedTuple):
    """The client is `user`; `data` goes into the outcome's additional-data."""

    user: str
    data: bytes | None = None


class Check(NamedTuple):
    """The client is `user` if `passes()`; that takes processor time, so it is not called here."""

    user: str
    claimed: str
    passes: Callable[[], bool]


class Attempt(Protocol):
    """One authentication attempt."""

    wants_initial: bool
    """Whether an absent initial response is requested with an empty challenge (RFC 4422, 3.3)."""

    def step(self, data: bytes) -> bytes | Check | Success:
        """Process a message of the client; returns a challenge, a check or the end."""


class Anonymous:
    """RFC 4505: trace information is ignored."""

    wants_initial = False

    def step(self, data: bytes) -> Success:
        return Success(ANONYMOUS_USER)


class External:
    """RFC 4422, appendix A: the user is that of the client certificate."""

    wants_initial = False

    def __init__(self, subject: str) -> None:
        self._subject = subject

    def step(self, data: bytes) -> Success:
        if data and data != self._subject.encode():
            raise LoginDenied("authorization-identity", self._subject)
        if self._subject in RESERVED:
            raise LoginDenied("reserved-name", self._subject)
        return Success(self._subject)


class PlainAttempt:
    """RFC 4616: [authzid] NUL authcid NUL passwd."""

    wants_initial = True

    def __init__(self, users: UserStore) -> None:
        self._users = users

    def step(self, data: bytes) -> Check:
        try:
            authorize, name, password = data.decode().split("\0")
        except ValueError:
            raise LoginDenied("malformed-credentials") from None
        if authorize not in ("", name):
            raise LoginDenied("authorization-identity", name)
        user, secret = prepare(name), prepare(password)
        if user is None or secret is None:
            raise LoginDenied("credentials", name)
        return Check(user, name, self._users.password_check(user, secret))


_AUTHORIZED: Final = re.compile(r"([ny],)a=([^,]*)(,.*)", re.DOTALL)
"""A client-first-message with an authorization identity (RFC 5802, 7: gs2-header)."""


class _Header(NamedTuple):
    """A gs2-header with an authorization identity, which scramp does not support."""

    response: bytes

    def make_cbind_input(self, binding: object) -> bytes:
        """The data that the client's last message has to repeat."""
        return self.response


class Scram:
    """RFC 5802 and 7677; channel binding is not offered."""

    wants_initial = True

    def __init__(self, mechanism: str, users: UserStore) -> None:
        from scramp import ScramMechanism  # imported only by a gateway with users

        self._users = users
        self._hash = mechanism.lower()
        self._server = ScramMechanism(mechanism).make_server(self._verifier)
        self._user = ""
        self._asked = False

    def step(self, data: bytes) -> bytes | Success:
        from scramp import ScramException

        try:
            message = data.decode()
            return self._last(message) if self._asked else self._first(message)
        except UnicodeDecodeError:
            raise LoginDenied("malformed-credentials", self._user) from None
        except ScramException:
            # RFC 5802, 7 lets a server name the error, but "unknown-user" must not be distinguishable.
            raise LoginDenied("credentials", self._user) from None

    def _first(self, message: str) -> bytes:
        self._asked = True
        if (found := _AUTHORIZED.fullmatch(message)) is None:
            self._server.set_client_first(message)
        else:
            flag, identity, rest = found.groups()
            self._server.set_client_first(flag + rest)
            self._server.gs2_header = _Header(f"{flag}a={identity},".encode())
            if prepare(identity.replace("=2C", ",").replace("=3D", "=")) != self._user:
                raise LoginDenied("authorization-identity", self._user)
        return str(self._server.get_server_first()).encode()

    def _last(self, message: str) -> Success:
        self._server.set_client_final(message)
        if self._user not in self._users:
            raise LoginDenied("credentials", self._user)
        return Success(self._user, str(self._server.get_server_final()).encode())

    def _verifier(self, user: str) -> tuple[bytes, bytes, bytes, int]:
        self._user = prepare(user) or ""
        salt, iterations, stored_key, server_key = self._users.verifier(self._user, self._hash)
        return salt, stored_key, server_key, iterations
