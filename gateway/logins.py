"""After a reload: connections whose login would no longer succeed are closed (docs/policy.md, Listener)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gateway.errors import UNAUTHORIZED_ACCESS, AmqpError
from gateway.listeners import Listener

REVOKED: Final = AmqpError(
    UNAUTHORIZED_ACCESS,
    "the login of this connection is no longer accepted: its user, certificate or SASL mechanism was removed",
)


def close_revoked(serving: Iterable[Listener], retired: Iterable[Listener]) -> int:
    """Close the connections whose login the policy no longer accepts; returns how many.

    A connection of a listener that was replaced answers to the one that now has its port, and without that to every
    other of its scope. Where a scope has no listener any more, its connections stay until they end.
    """
    current = list(serving)
    closed = 0
    for listener in [*current, *retired]:
        judges = _judges(listener, current)
        for connection in list(listener.connections) if judges else ():
            if connection.engine is not None and not any(judge.admits_login(connection) for judge in judges):
                listener.revoked(connection)
                connection.close(REVOKED)
                closed += 1
    return closed


def _judges(listener: Listener, current: list[Listener]) -> list[Listener]:
    if listener in current:
        return [listener]
    scope = [each for each in current if each.settings.scope == listener.settings.scope]
    return [each for each in scope if each.settings.model.bind == listener.settings.model.bind] or scope
