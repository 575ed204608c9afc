"""Basic logins (RFC 7617) against the scope's users file: hashed off the event loop, and cached for a minute.

Every request contains its password, and a check takes 1 to 30 ms of processor time. A successful login is cached under
a keyed hash; the password itself is not stored. After too many failures, an address is refused for up to a second.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from gateway.amqp.sasl.password_checks import PasswordChecks
from gateway.amqp.sasl.verifiers import UserStore, prepare
from gateway.http.failures import FailedLogins

REMEMBERED: Final = 60.0
"""Seconds for which a successful login is not checked again."""
_KEPT: Final = 10_000
"""Successful logins that are remembered."""


class BasicLogins:
    """The logins of one listener."""

    def __init__(
        self, name: str, checks: PasswordChecks, users: UserStore, clock: Callable[[], float]
    ) -> None:
        """`name`: the listener's, so that password checks of listeners take turns; `clock` returns seconds."""
        self._name: Final = name
        self._checks: Final = checks
        self._users = users
        self._clock: Final = clock
        self._key: Final = secrets.token_bytes(32)
        self._passed: Final[OrderedDict[bytes, tuple[float, str]]] = OrderedDict()
        self._failures: Final = FailedLogins(clock)

    def renew(self, users: UserStore) -> None:
        """Use the users file of a reloaded policy."""
        if users is not self._users:
            self._users = users
            self._passed.clear()

    async def user(self, authorization: str, address: str) -> str | None:
        """The user of an `Authorization` header; None: the login is wrong.

        Raises `gateway.http.failures.TooManyFailures`.
        """
        digest = hmac.digest(self._key, authorization.encode(), "sha256")
        until, known = self._passed.get(digest, (0.0, ""))
        if self._clock() < until:  # even if other clients behind the same address fail
            return known
        self._failures.admit(address)
        user = await self._check(authorization, digest, address)
        if user is None:
            self._failures.add(address)
        return user

    async def _check(self, authorization: str, digest: bytes, address: str) -> str | None:
        name, password = _credentials(authorization)
        users = self._users
        passed = await self._hash(users.password_check(name, password), address)
        if not passed or users is not self._users:
            return None
        self._passed[digest] = self._clock() + REMEMBERED, name
        self._passed.move_to_end(digest)
        if len(self._passed) > _KEPT:
            self._passed.popitem(last=False)
        return name

    async def _hash(self, passes: Callable[[], bool], address: str) -> bool:
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def finish(passed: bool) -> None:
            if not done.done():
                done.set_result(passed)

        ticket = self._checks.submit(self._name, address, passes, finish)
        try:
            return await done
        finally:
            ticket.cancel()


def _credentials(authorization: str) -> tuple[str, str]:
    """User and password, prepared; empty for a malformed header, so that its check fails and takes as long."""
    scheme, _, token = authorization.partition(" ")
    try:
        text = base64.b64decode(token.strip(), validate=True).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        text = ""
    name, colon, password = text.partition(":")
    user, secret = prepare(name), prepare(password)
    if scheme.lower() != "basic" or not colon or user is None or secret is None:
        return "", ""
    return user, secret
