"""Finds the caller of a request: by the socket, a token, the cookie of a session, or a client certificate."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from gateway.admin.access.callers import AdminCaller, KnownCallers, digest_of, local_caller
from gateway.admin.access.protocol import peer_of
from gateway.admin.access.sessions import BrowserSessions
from gateway.http.failures import FailedLogins

if TYPE_CHECKING:
    from starlette.requests import Request


class Identity:
    """The callers of one gateway's admin API; the policy in force decides at every request."""

    def __init__(self, clock: Callable[[], float], failed: Callable[[str], None]) -> None:
        """`clock` returns seconds; `failed` gets the address of whoever came with a wrong token."""
        self._callers = KnownCallers({}, {})
        self._failures: Final = FailedLogins(clock)
        self._failed: Final = failed
        self.sessions: Final = BrowserSessions(clock)

    def renew(self, callers: KnownCallers) -> None:
        """Apply a new policy: a session ends with its token."""
        self._callers = callers

    def caller(self, request: Request) -> AdminCaller | None:
        """Who sends a request; None: nobody known. Raises TooManyFailures."""
        peer = peer_of(request)
        if peer.uid is not None:
            return local_caller(peer.uid, os.geteuid())
        header = request.headers.get("authorization")
        if header is not None:
            scheme, _, token = header.partition(" ")
            return self.of_token(token.strip(), peer.address) if scheme.lower() == "bearer" else None
        return self._of_cookie(request) or self._callers.of_subject(peer.subject())

    def of_token(self, token: str, address: str) -> AdminCaller | None:
        """Whose token this is. Raises TooManyFailures."""
        found = self._callers.of_digest(_digest(token))
        if found is None:  # a right token is taken even if others behind the same address fail
            self._failures.admit(address)
            self._failures.add(address)
            self._failed(address)
        return found

    def begin(self, token: str) -> str:
        """Begin a session for a token that is known; returns its cookie."""
        return self.sessions.begin(_digest(token))

    def _of_cookie(self, request: Request) -> AdminCaller | None:
        cookie = request.cookies.get(cookie_name(request))
        token = None if cookie is None else self.sessions.token(cookie)
        found = None if token is None else self._callers.of_digest(token)
        return None if found is None else found._replace(browser=True)


def _digest(token: str) -> bytes:
    return digest_of(token.encode("utf-8", "surrogatepass"))


def cookie_name(request: Request) -> str:
    """The name of the cookie: browsers do not tell the ports of a host apart, but several gateways may be on it."""
    server = request.scope.get("server")
    name = f"scopegate-{server[1]}" if server else "scopegate"
    return f"__Host-{name}" if request.url.scheme == "https" else name
